"""A scheduler under watch: each call is passed on, and what comes back is checked against books of our own."""

from __future__ import annotations

from collections.abc import Sequence

from decodelab.check.rules import Finding
from decodelab.check.schedule.books import Books, Broken, broken, ids
from decodelab.check.schedule.plans import EVERY_PLAN, PlanRule
from decodelab.contract import Finished, Plan, Refused, Scheduler, SchedulerConfig, State, Tokens
from decodelab.request import Request, RequestId


class Watched:
    """Meets the contract itself, so that the loop drives it; Broken names the first rule that is not kept.

    reasons: the refusals that the chapter asks for, words of contract.REASONS. rules: beside those of every plan.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        config: SchedulerConfig,
        reasons: Sequence[str],
        rules: Sequence[PlanRule] = (),
    ) -> None:
        self.scheduler, self.reasons, self.rules = scheduler, reasons, rules
        self.books = Books(config)

    def add_request(self, request: Request, now: float) -> None:
        due = [reason for reason in grounds(self.books, request) if reason in self.reasons]
        try:
            self.scheduler.add_request(request, now)
        except Refused as refusal:
            if wrong := self._wrong_refusal(request, due, refusal.reason):
                raise Broken(wrong) from None
            raise
        if due:
            raise Broken(
                broken(
                    self.books,
                    f"refuses-{due[0].replace('_', '-')}",
                    f'{asked(request)} must be refused: raise Refused("{due[0]}").',
                    f'{asked(request)} 必须拒绝：raise Refused("{due[0]}")。',
                    hint=2,
                )
            )
        self.books.add(request)

    def _wrong_refusal(self, request: Request, due: list[str], reason: str) -> Finding | None:
        if not due:
            return broken(
                self.books,
                "accepts-good-requests",
                f"{asked(request)} can be served, but it was refused ({reason[:60]}).",
                f"{asked(request)} 是能够服务的，却被拒绝了（{reason[:60]}）。",
            )
        if reason not in due:
            return broken(
                self.books,
                "names-the-reason",
                f"{asked(request)} is refused because of {due[0]}; yours gives {reason[:60]!r} as the reason.",
                f"拒绝 {asked(request)} 的原因是 {due[0]}；你给出的是 {reason[:60]!r}。",
                hint=0,
            )
        return None

    def abort(self, request_id: RequestId, now: float) -> None:
        self.scheduler.abort(request_id, now)
        self.books.remove(request_id)

    def schedule(self, now: float) -> Plan:
        self.books.now = now
        plan = self.scheduler.schedule(now)
        for rule in (*EVERY_PLAN, *self.rules):
            if wrong := rule(self.books, plan):
                raise Broken(wrong)
        self.books.apply(plan)
        return plan

    def update(self, plan: Plan, tokens: Tokens, now: float) -> Finished:
        finished = self.scheduler.update(plan, tokens, now)
        want = self.books.take(tokens)
        if finished != want:
            raise Broken(wrong_end(self.books, tokens, finished, want))
        for request_id in finished:
            self.books.remove(request_id)
        return finished

    def state(self) -> State:
        return State(list(self.books.running), [e.request.request_id for e in self.books.waiting()])


def grounds(books: Books, request: Request) -> list[str]:
    """Every reason there is to refuse a request, of all that the contract knows."""
    config, prompt, wanted = books.config, request.prompt_len, request.max_new_tokens
    if not all(type(n) is int and n >= 1 for n in (prompt, wanted)):
        return ["bad_length"] + (["duplicate_id"] if request.request_id in books.ids else [])
    limit = config.max_model_len
    longest = min(prompt + wanted, limit or prompt + wanted) - 1  # the last token is never computed
    # Who is preempted computes prompt and answer again, in one piece where prompts are not chunked.
    at_once = prompt if config.num_blocks is None else longest
    found = {
        "duplicate_id": request.request_id in books.ids,
        "over_model_len": limit is not None and prompt >= limit,
        "over_budget": not config.enable_chunked_prefill and at_once > config.max_num_batched_tokens,
        "never_fits": config.num_blocks is not None and longest > config.num_blocks * config.block_size,
    }
    return [reason for reason, is_so in found.items() if is_so]


def asked(request: Request) -> str:
    """A request in short, as one would type it."""
    return (
        f"Request({request.request_id!r}, prompt_len={request.prompt_len!r}, "
        f"max_new_tokens={request.max_new_tokens!r})"
    )


def wrong_end(books: Books, tokens: Tokens, got: Finished, want: Finished) -> Finding:
    """The finding where update did not end who had to end."""
    missing, extra = [i for i in want if i not in got], [i for i in got if i not in want]
    if missing or extra:
        en = f"{ids(missing)} must end with this step" if missing else f"{ids(extra)} must go on"
        zh = f"{ids(missing)} 应当在这一步结束" if missing else f"{ids(extra)} 还没有结束"
        return broken(
            books,
            "ends-on-time",
            f"Tokens {tokens}: {en}; update returned {got}.",
            f"这一步的 token 是 {tokens}：{zh}；update 返回的是 {got}。",
        )
    request_id = next(i for i in want if got[i] != want[i])
    return broken(
        books,
        "finish-reason",
        f"Request {request_id} ends with the reason {want[request_id]!r}, not {got[request_id]!r}: a stop token counts first.",
        f"请求 {request_id} 的结束原因是 {want[request_id]!r}，不是 {got[request_id]!r}：先看停止 token。",
    )
