# %% [markdown] lang="en"
# # Chapter 3 · Policies: who goes next, and how long can anyone wait
#
# One machine, one request at a time, a queue in front of it. You write the rules by which the queue picks:
# first come, shortest first, two classes, aging. Then you run them all on the same loads and see what each
# one buys, for whom, and who pays.
#
# **Time.** Core: 90 minutes at most (five TODOs, three experiments). Extension: 60 minutes more.
#
# **You need.** Chapters 1 and 2. No GPU, no PyTorch.
#
# **You leave with.** Policies as small objects, which the schedulers of chapters 4 to 7 use as they are.

# %% [markdown] lang="zh"
# # 第 3 章 · 策略：下一个是谁，最多等多久
#
# 一台机器，一次只服务一个请求，前面排着队。这一章由你来写排队的规矩：先来先服务、短的优先、分成两级、越等越急。
# 写完放到同样的负载上跑一遍，看看每一种规矩给谁带来好处，又让谁付了代价。
#
# **时间。** 核心部分最多 90 分钟（五个 TODO，三个实验）；扩展部分再加 60 分钟。
#
# **基础。** 学过第 1、2 章。不需要 GPU，也不需要 PyTorch。
#
# **收获。** 几个小小的策略对象，第 4 到第 7 章的调度器原封不动地拿去用。

# %% [markdown] lang="en"
# ## Three questions before you start
#
# 1. Of which two parts is TTFT made? Which of them can an order of service change?
# 2. An 8-billion-parameter model on an H100: which takes longer, reading 1,000 prompt tokens or generating
#    10?
# 3. In chapter 1 a cache miss of the highest priority starved. What in the key made that possible?
#
# For 1 and 2 see [chapter 2](./ch02_cost_and_metrics.ipynb), for 3 [chapter
# 1](./ch01_decode_scheduler.ipynb), experiment 1.

# %% [markdown] lang="zh"
# ## 开始之前的三个问题
#
# 1. TTFT 由哪两部分组成？改变服务次序，能动的是哪一部分？
# 2. 80 亿参数的模型放在 H100 上：读 1,000 个 token 的提示词和生成 10 个 token，哪个更慢？
# 3. 第 1 章里，优先级最高的未命中请求饿死了。是排序键里的什么造成的？
#
# 前两题见[第 2 章](./ch02_cost_and_metrics.ipynb)，第 3 题见[第 1 章](./ch01_decode_scheduler.ipynb)的实验 1。

# %% tags=["setup"]
from decodelab import TodoError, check, hint, progress, solution, start, tr  # noqa: F401

start("ch03", tr(en="en", zh="zh"))

# %% [markdown] lang="en"
# ## The pain, in numbers
#
# Five requests stand in line. The first needs the machine for 10 seconds, the four behind it for 1 second
# each. All the machine ever does is 14 seconds of work, in any order:
#
# | order | how long each waits before it begins | mean wait |
# |---|---|---|
# | as they came | 0, 10, 11, 12, 13 s | 9.2 s |
# | the four short ones first | 0, 1, 2, 3, 4 s | 2.0 s |
#
# Same machine, same work, same end. Nothing was made faster, and people wait less than a quarter as long.
# That is all that a policy can do, and it is a lot.
#
# Now let a short one arrive every second. First-come still answers the long one. Shortest-first **never**
# does: there is always someone shorter. So each policy needs two numbers, not one: how long people wait on
# average, and how long *anyone* can wait at most.

# %% [markdown] lang="zh"
# ## 先看数字：难在哪里
#
# 五个请求在排队。第一个要占用机器 10 秒，后面四个各要 1 秒。不管按什么次序，机器干的活都是 14 秒：
#
# | 次序 | 每个请求开始之前等了多久 | 平均等待 |
# |---|---|---|
# | 按先后 | 0、10、11、12、13 秒 | 9.2 秒 |
# | 四个短的先走 | 0、1、2、3、4 秒 | 2.0 秒 |
#
# 机器没换，活没少，收工的时刻也一样。什么都没变快，大家等的时间却不到原来的四分之一。
# 策略能做的就这么多，可这已经很多了。
#
# 现在再让短请求每秒来一个。先来先服务照样会轮到那个长的；短的优先则**永远**轮不到它：总有更短的。
# 所以评价一个策略要看两个数，不能只看一个：平均等多久，以及**任何人**最多等多久。

# %% [markdown] lang="en"
# ## The idea: a policy is an object with a key
#
# ```text
#                  add(request, now)                    pop(now)
#   arrivals  ------------------------>  [ queue ]  --------------->  [ server: one request,  ]  --->  done
#                                          |  ^                       [ from start to end     ]
#                        cancel(id)  ------+  |
#                                             +---  policy.key(request, now):  the smallest goes first
# ```
#
# *The server asks the queue who is next; the queue asks the policy for a key of everyone who waits.*
#
# Chapter 1 had its key inside the scheduler. Here it moves out, into an object of its own with one method,
# `key(request, now)`. The queue does not know *why* a key is small, the policy does not know *how* the
# smallest is found, and so every policy works with every queue, and with every scheduler from chapter 4 on.
#
# | policy | key, the smallest goes first | the good intention |
# |---|---|---|
# | `PriorityOrder` (given) | −priority, arrival, id | urgent is urgent |
# | `FCFS` | arrival, id | first come, first served |
# | `SJF` | size of the job, arrival, id | shortest job first: the mean wait is small |
# | `Aging(policy, rate)` | the policy's first field − rate × seconds waited, the rest | whoever waits rises |
#
# Every key ends in `arrival_time, request_id`. So no two keys are equal, and the same input gives the same
# run.
#
# `static = True` on a class is a promise to schedulers: my keys do not change while a request waits, you may
# keep them in a heap.

# %% [markdown] lang="zh"
# ## 想法：策略就是一个带排序键的对象
#
# ```text
#                  add(request, now)                    pop(now)
#   arrivals  ------------------------>  [ queue ]  --------------->  [ server: one request,  ]  --->  done
#                                          |  ^                       [ from start to end     ]
#                        cancel(id)  ------+  |
#                                             +---  policy.key(request, now):  the smallest goes first
# ```
#
# 图：服务器问队列下一个是谁；队列再向策略要每个等待者的排序键（下称键），取最小的。
#
# 第 1 章的键写在调度器里面。这一章把它搬出来，放进一个单独的对象，只有一个方法 `key(request, now)`。
# 队列不知道键**为什么**小，策略也不管最小的**怎么**找出来，所以任何策略配任何队列都能用，
# 第 4 章以后的各种调度器也一样。
#
# | 策略 | 键，小的先走 | 它的好意 |
# |---|---|---|
# | `PriorityOrder`（现成） | −priority、到达时间、id | 急事先办 |
# | `FCFS` | 到达时间、id | 先来先服务 |
# | `SJF` | 作业大小、到达时间、id | 短作业优先：平均等待短 |
# | `Aging(policy, rate)` | 原策略的首字段 − rate × 已等秒数，其余照旧 | 谁等得久，谁往前挪 |
#
# 每个键都以 `arrival_time, request_id` 结尾，所以不会有两个键相等，同样的输入每次跑出来都一样。
#
# 类上写着 `static = True`，是对调度器的承诺：请求等待期间，我的键不会变，可以放心放进堆里。

# %% [markdown] lang="en"
# ## What is given
#
# `Request` is the one that you know from chapter 2: `request_id` (numbers or texts, in one run all of one kind),
# `arrival_time` (seconds), `prompt_len` and `max_new_tokens` (tokens), `priority` (**higher is more urgent**).
# `PriorityOrder` shows what a policy looks like. `serve` is the machine: it lets requests in when they arrive and
# asks the queue whenever it is free.

# %% [markdown] lang="zh"
# ## 现成的部分
#
# `Request` 在第 2 章见过：`request_id`（数字或文本，一次运行里只用一种）、`arrival_time`（秒）、`prompt_len` 和 `max_new_tokens`（token 数）、
# `priority`（**数值越大越急**）。`PriorityOrder` 示范了一个策略长什么样。
# `serve` 就是那台机器：请求到了就放进队列，一空下来就问队列要下一个。

# %% tags=["export"]
from collections import deque

from decodelab.request import Request
from decodelab.timings import Timing


class PriorityOrder:
    """en: The more urgent first; among equals, who came first.
    zh: 急的在前；一样急的，先到的在前。
    """

    static = True

    def key(self, request: Request, now: float) -> tuple:
        return (-request.priority, request.arrival_time, request.request_id)


def total_tokens(request: Request) -> int:
    """en: The size of a job where nothing better is known: tokens to read and to write.
    zh: 没有更好的估计时，作业的大小：要读的加上要写的 token 数。
    """
    return request.prompt_len + request.max_new_tokens


def serve(requests, queue, answer) -> list[Timing]:
    """en: One machine, one request at a time, never interrupted; ``queue`` says who is next.
    en: answer(request): seconds from a request's start to each of its tokens. Returns the times of those
    en: that were served, in order of service.
    zh: 一台机器，一次一个请求，中途不打断；下一个是谁由 ``queue`` 说了算。
    zh: answer(request)：从开始服务到吐出每个 token 的秒数。按服务次序返回各个时刻，只含得到服务的请求。
    """
    coming = sorted(requests, key=lambda request: request.arrival_time)[::-1]
    now, served = 0.0, []
    while True:
        while coming and coming[-1].arrival_time <= now:
            request = coming.pop()
            queue.add(request, request.arrival_time)
        request = queue.pop(now)
        if request is not None:
            times = [now + seconds for seconds in answer(request)]
            served.append(
                Timing(request.request_id, request.arrival_time, request.prompt_len, now, times, "length")
            )
            now = times[-1]
        elif coming:
            now = coming[-1].arrival_time
        else:
            return served


# %% [markdown] lang="en"
# ## TODO ch03.1 · First come, first served
#
# Fill in `FCFS.key` in the cell below: a tuple that is smaller for whoever came first.
#
# - First `arrival_time`; where two are equal, `request_id`.
# - Nothing else counts: no length, no priority, not `now`. (`static = True` says so.)
#
# The check does not compare your tuple with ours. It sorts requests by your keys, once from the front and
# once from the back, and looks at the order that comes out.

# %% [markdown] lang="zh"
# ## TODO ch03.1 · 先来先服务
#
# 在下面的单元格里补全 `FCFS.key`：返回一个元组，谁先到，谁的元组小。
#
# - 先看 `arrival_time`；相等就看 `request_id`。
# - 别的一概不看：长度、优先级、`now` 都不算数。（`static = True` 说的就是最后这一条。）
#
# 检查不会拿你的元组和参考实现逐项比较。它用你的键给请求排序，正着排一次，反着排一次，只看排出来的次序。

# %% [markdown] lang="en" hint="ch03.1"
# 1. Look at `PriorityOrder`: yours is the same without its first field.
# 2. A tuple of two fields, both straight from `request`. The one that decides comes first.
# 3. `return (request.arrival_time, ...)`, and the id behind it.

# %% [markdown] lang="zh" hint="ch03.1"
# 1. 看看 `PriorityOrder`：去掉它的第一个字段，就是你要写的。
# 2. 两个字段的元组，都直接取自 `request`。说了算的放前面。
# 3. `return (request.arrival_time, ...)`，后面再跟上 id。

# %% [markdown] lang="en" explain="ch03.1"
# Who came first never changes, so the key is static, and nobody who comes later can ever step in front. That
# is why first-come needs no guard against starvation: whoever waits is overtaken by no one.
#
# The id breaks ties. Two requests of one network packet do have equal times, and a run that depends on which
# of them a dict happens to list first cannot be repeated.

# %% [markdown] lang="zh" explain="ch03.1"
# 谁先到是不会变的，所以键是静态的，后来的人永远插不到前面。先来先服务不用防饿死，道理就在这里：
# 排上了队，就没有人能超过你。
#
# id 用来打破平局。同一个网络包里来的两个请求，时间戳真的会一样；要是结果取决于字典里碰巧谁在前，
# 这次运行就没法重现。

# %% [markdown] lang="en"
# ## TODO ch03.2 · Shortest job first
#
# Fill in `SJF.key`, in the same cell: the smaller job first, then who came first, then the smaller id.
#
# How large a job is, `self.size(request)` says. Unless somebody hands in another function, that is
# `total_tokens`. Ask it; do not count the tokens yourself. An experiment below swaps it for a better one.

# %% [markdown] lang="zh"
# ## TODO ch03.2 · 短作业优先
#
# 补全同一个单元格里的 `SJF.key`：小的作业在前，其次先到的在前，最后 id 小的在前。
#
# 作业有多大，由 `self.size(request)` 说了算；没有另外指定时，它就是 `total_tokens`。
# 请调用它，不要自己去数 token：后面有个实验会换上一个更好的。

# %% [markdown] lang="en" hint="ch03.2"
# 1. The same idea as `FCFS`, with one more field in front.
# 2. `self.size` is a function that was kept in `__init__`; call it with the request. The last two fields are
#    those of `FCFS`.
# 3. `return (self.size(request), request.arrival_time, ...)`.

# %% [markdown] lang="zh" hint="ch03.2"
# 1. 和 `FCFS` 一个思路，只是前面多一个字段。
# 2. `self.size` 是 `__init__` 里存下来的函数，把请求传给它调用。后面两个字段和 `FCFS` 一样。
# 3. `return (self.size(request), request.arrival_time, ...)`。

# %% [markdown] lang="en" explain="ch03.2"
# Why shortest first gives the smallest mean wait: take any two neighbours in the line. If the longer stands
# first, swap them. Nobody else notices, one of the two now waits the longer job less, the other the shorter
# job more: the sum has gone down. As long as such a pair is left, the order was not the best.
#
# The proof needs two things that a real server lacks: all sizes are known, and nobody arrives later. `size`
# is a parameter because the first is an estimate.

# %% [markdown] lang="zh" explain="ch03.2"
# 为什么短的优先平均等待最短？随便看队伍里相邻的两个：要是长的站在前面，就对调一下。别人毫无感觉，
# 这两个当中，一个少等了一份长的，一个多等了一份短的，总和变小了。只要还有这样的一对，次序就不是最好的。
#
# 这个证明要两个条件，真实的服务器恰恰都没有：大小事先知道；后面不再来人。
# `size` 之所以做成参数，就是因为第一条只能靠估计。


# %% answer="ch03-answer" tags=["export"]
class FCFS:
    """en: First come, first served.
    zh: 先来先服务。
    """

    static = True

    def key(self, request: Request, now: float) -> tuple:
        # TODO ch03.1
        # en: Who arrived first; among equals, the smaller id.
        # zh: 先到的在前；同时到的，id 小的在前。
        return (request.arrival_time, request.request_id)
        # END ch03.1


class SJF:
    """en: Shortest job first; ``size(request)`` says how large a job is.
    zh: 短作业优先；作业有多大由 ``size(request)`` 说了算。
    """

    static = True

    def __init__(self, size=total_tokens) -> None:
        self.size = size

    def key(self, request: Request, now: float) -> tuple:
        # TODO ch03.2
        # en: self.size of the request, then as in FCFS.
        # zh: 先是 self.size 给出的大小，后面和 FCFS 一样。
        return (self.size(request), request.arrival_time, request.request_id)
        # END ch03.2


# %% check="ch03.1" points=1 level="core"
check("ch03.1")

# %% check="ch03.2" points=1 level="core"
check("ch03.2")

# %% [markdown] lang="en"
# ## TODO ch03.3 · A queue that asks
#
# Fill in `PolicyQueue.pop(now)`: of all who wait, the one with the smallest `policy.key(request, now)` leaves
# the queue and is returned.
#
# - Nobody waits: return `None`. That is no error; the machine is idle for a moment.
# - The keys are those of **this** `now`. A policy may answer differently from one pop to the next.
# - Some policy may give equal keys. Then the smaller `request_id` goes first.
# - A request comes out once. One that was cancelled never does.
#
# `self.waiting` is a dict, id to request, in the order in which they were added.

# %% [markdown] lang="zh"
# ## TODO ch03.3 · 会问策略的队列
#
# 补全 `PolicyQueue.pop(now)`：在等待的请求里，`policy.key(request, now)` 最小的那个离开队列，作为返回值。
#
# - 没有人在等：返回 `None`。这不是错误，机器空闲一下而已。
# - 键要按**这一次**的 `now` 来算。同一个策略，前后两次 pop 给出的答案可能不同。
# - 有的策略会给出相等的键。这时 `request_id` 小的先走。
# - 一个请求只出来一次；取消了的请求永远不会出来。
#
# `self.waiting` 是一个字典，从 id 到请求，按加入的先后排列。

# %% [markdown] lang="en" hint="ch03.3"
# 1. As `step` in chapter 1: first the empty case, then the smallest. And it must be gone afterwards.
# 2. `min(self.waiting.values(), key=...)` finds the request. The key function needs `now` too, so write a
#    `lambda`; to break ties let it return a pair, the policy's key and the id. `self.waiting.pop(id)` removes an
#    entry *and* returns it.
# 3. `if not self.waiting: return None`; `request = min(self.waiting.values(), key=lambda r:
#    (self.policy.key(r, now), r.request_id))`; then return what `self.waiting.pop(request.request_id)` gives.

# %% [markdown] lang="zh" hint="ch03.3"
# 1. 和第 1 章的 `step` 一样：先处理空的情况，再找最小的。只是找到之后，它必须离开队列。
# 2. `min(self.waiting.values(), key=...)` 找出那个请求。传给它的函数还需要 `now`，所以要写一个 `lambda`；
#    为了打破平局，让它返回一对：策略的键，再加上 id。`self.waiting.pop(id)` 一步做完两件事：删掉并返回。
# 3. `if not self.waiting: return None`；
#    `request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))`；
#    最后返回 `self.waiting.pop(request.request_id)` 的结果。

# %% [markdown] lang="en" explain="ch03.3"
# One pass over those who wait, for every pop. A heap would be faster, but holds keys that were computed when
# a request was *added*; where the order changes with time, those are stale. That is what `static = True` is
# for: a scheduler may look at it and take the heap.
#
# Cancelling is one line here because the dict is the only place where a request is kept. With a heap it is
# the hard part: nothing can be taken out of its middle, so one marks the entry as dead and skips it on the
# way out.
#
# With the policies of this chapter the id behind the key decides nothing: their keys end in it. It is there for
# a policy whose author forgot, so that even then the same input gives the same run.

# %% [markdown] lang="zh" explain="ch03.3"
# 每次 pop 都把等待的请求扫一遍。用堆会快一些，但堆里存的是请求**加入时**算的键；次序会随时间变的策略，
# 那些键就过期了。`static = True` 正是为此而设：调度器看到它，就可以放心用堆。
#
# 这里取消只要一行，因为请求只存在字典这一处。换成堆，取消反而最麻烦：堆的中间抽不出东西来，
# 只能把那一项标成作废，等它出来时跳过。
#
# 对本章的策略来说，键后面再加的 id 起不了作用：它们的键本来就以 id 结尾。加上它，是为了防着写策略的人忘了这一条；
# 就算忘了，同样的输入每次跑出来还是一样。


# %% answer="ch03-answer-2" tags=["export"]
class PolicyQueue:
    """en: Those who wait; the one with the policy's smallest key goes first.
    zh: 等待的请求；按策略，键最小的先走。
    """

    def __init__(self, policy) -> None:
        self.policy = policy
        self.waiting: dict = {}

    def add(self, request: Request, now: float) -> None:
        """en: Take in a request; ValueError for an id that waits already.
        zh: 收下一个请求；id 已经在等，抛 ValueError。
        """
        if request.request_id in self.waiting:
            raise ValueError(f"request_id {request.request_id!r} waits already | 这个 id 已经在等了")
        self.waiting[request.request_id] = request

    def cancel(self, request_id) -> None:
        """en: Forget a request; an id that does not wait is ignored.
        zh: 忘掉一个请求；不在等的 id 不理会。
        """
        self.waiting.pop(request_id, None)

    def pop(self, now: float) -> Request | None:
        """en: Take out the request that is served next; None if nobody waits.
        zh: 取出下一个要服务的请求；没有人在等就返回 None。
        """
        # TODO ch03.3
        # en: None for an empty queue; else the smallest key at this now leaves the queue and is returned; ties by id.
        # zh: 队列空就返回 None；否则按这个 now 的键取最小的（相等就取 id 小的），让它离开队列并返回。
        if not self.waiting:
            return None
        request = min(self.waiting.values(), key=lambda r: (self.policy.key(r, now), r.request_id))
        return self.waiting.pop(request.request_id)
        # END ch03.3


# %% check="ch03.3" points=3 level="core"
check("ch03.3")

# %% [markdown] lang="en"
# ## TODO ch03.4 · Two classes, with a guard
#
# `PriorityScheduler` has two queues: `self.urgent` for a priority above 0, `self.normal` for all others.
# Within a queue the policy decides. Fill in `pop(now)`:
#
# - An urgent one goes first, **unless** `burst` urgent ones in a row have gone and a normal one waits: then
#   it is the normal one's turn.
# - `self.row` counts the urgent ones since the last normal one. Each urgent one that is served adds 1, each
#   normal one sets it to 0. A pop that finds nobody leaves it alone.
# - Where only one class waits, it goes. No turn is wasted: the machine is never idle while someone waits.
# - Nobody waits: `None`.
#
# The guard is a promise with a number. **Predict:** `burst=3`, endless urgent ones, two normal ones ahead of
# you in the normal queue. How many urgent ones can go before you, at most?

# %% [markdown] lang="zh"
# ## TODO ch03.4 · 分成两级，加一道保险
#
# `PriorityScheduler` 有两个队列：优先级大于 0 的进 `self.urgent`，其余的进 `self.normal`。队列内部由策略决定。
# 请补全 `pop(now)`：
#
# - 紧急的先走，**除非**已经连续走了 `burst` 个紧急的，而又有普通的在等：这时轮到普通的。
# - `self.row` 数的是上一个普通请求之后走了几个紧急的。每服务一个紧急的加 1，每服务一个普通的归 0。
#   没取到人的 pop 不改动它。
# - 只有一级在等，就让那一级走。机会不浪费：只要有人在等，机器就不闲着。
# - 没有人在等：返回 `None`。
#
# 这道保险是一个带数字的承诺。**先猜：** `burst=3`，紧急请求源源不断，普通队列里排在你前面的还有两个。
# 最多会有几个紧急的走在你前面？

# %% [markdown] lang="en" hint="ch03.4"
# 1. Ask one question first: is it a normal one's turn? Only then anything else.
# 2. It is a normal one's turn if one waits *and* (the row is full *or* no urgent one waits).
#    `self.urgent.waiting` is an empty dict, hence false, where nobody waits. Set `self.row` only when
#    somebody was served.
# 3. `if self.normal.waiting and (self.row >= self.burst or not self.urgent.waiting):` set the row to 0 and
#    return the normal queue's pop. After it: `if self.urgent.waiting: self.row += 1`, and return the urgent
#    queue's pop.

# %% [markdown] lang="zh" hint="ch03.4"
# 1. 先只问一个问题：是不是轮到普通的了？弄清这个，再说别的。
# 2. 轮到普通的，条件是有普通的在等，**并且**（连续的个数满了，**或者**没有紧急的在等）。
#    没有人等的时候，`self.urgent.waiting` 是空字典，当作假。只有真的服务了人，才改 `self.row`。
# 3. `if self.normal.waiting and (self.row >= self.burst or not self.urgent.waiting):`，里面把 `self.row` 归 0，
#    返回普通队列的 pop。之后 `if self.urgent.waiting: self.row += 1`，返回紧急队列的 pop。

# %% [markdown] lang="en" explain="ch03.4"
# The bound can be read off: of every `burst + 1` requests in a row, at least one is normal while a normal one
# waits. With k normal ones ahead of you, at most `(k + 1) × burst` urgent ones go before you. For k = 2 and
# burst = 3 that is 9. The bound counts requests, not seconds: it says nothing about how long each of them
# takes.
#
# What the guard costs is just as plain: when the row is full, an urgent one waits for one normal one.

# %% [markdown] lang="zh" explain="ch03.4"
# 上限一眼就能读出来：只要有普通的在等，连续的 `burst + 1` 个请求里至少有一个是普通的。
# 前面排着 k 个普通的，那么最多有 `(k + 1) × burst` 个紧急的走在你前面；k = 2、burst = 3 时就是 9 个。
# 这个上限数的是请求个数，不是秒：每个请求要花多久，它管不着。
#
# 这道保险的代价也一样清楚：连续的个数满了，紧急的就得等一个普通的先走。


# %% answer="ch03-answer-3" tags=["export"]
class PriorityScheduler:
    """en: Urgent ones (priority above 0) first, but after ``burst`` in a row a normal one that waits.
    zh: 紧急的（priority 大于 0）先走，但连续走了 ``burst`` 个之后，轮到等着的普通请求。
    """

    def __init__(self, policy, burst: int) -> None:
        if burst < 1:
            raise ValueError(f"burst must be 1 or more, not {burst} | burst 至少是 1")
        self.urgent, self.normal = PolicyQueue(policy), PolicyQueue(policy)
        self.burst = burst
        self.row = 0

    def add(self, request: Request, now: float) -> None:
        (self.urgent if request.priority > 0 else self.normal).add(request, now)

    def cancel(self, request_id) -> None:
        self.urgent.cancel(request_id)
        self.normal.cancel(request_id)

    def pop(self, now: float) -> Request | None:
        """en: Take out the request that is served next; None if nobody waits.
        zh: 取出下一个要服务的请求；没有人在等就返回 None。
        """
        # TODO ch03.4
        # en: A normal one if one waits and (row is full or no urgent one waits); else an urgent one. Keep row right.
        # zh: 有普通的在等，并且（row 满了，或没有紧急的）就取普通的；否则取紧急的。row 要记对。
        if self.normal.waiting and (self.row >= self.burst or not self.urgent.waiting):
            self.row = 0
            return self.normal.pop(now)
        if self.urgent.waiting:
            self.row += 1
        return self.urgent.pop(now)
        # END ch03.4


# %% check="ch03.4" points=3 level="core"
check("ch03.4")

# %% [markdown] lang="en"
# ## TODO ch03.5 · Aging: whoever waits rises
#
# `Aging(policy, rate)` is a policy around a policy. It takes the inner key and makes its **first field**
# smaller by `rate` for every second that the request has waited. Around `SJF` that field is a size: at
# `rate=2` a job counts as two tokens smaller after each second.
#
# - Waited: `now - request.arrival_time`.
# - The other fields of the inner key stay as they are.
# - Ask the inner policy, at this `now`; `Aging(PriorityOrder(), 0.5)` must work as well.
#
# Why this bounds the wait: a newcomer of size s that arrives d seconds after you has the smaller key only if
# `s + rate × d < your size`. So nobody who comes more than **(your size − s) / rate** seconds after you can
# overtake you, however many there are. For `rate = 0` there is no bound: that is plain `SJF`.

# %% [markdown] lang="zh"
# ## TODO ch03.5 · 老化：谁等得久，谁往前挪
#
# `Aging(policy, rate)` 是套在策略外面的策略。它拿来内层策略的键，把**首字段**改小：每等一秒，减去 `rate`。
# 内层是 `SJF` 时，首字段是作业大小；`rate=2` 就是每等一秒，当作小了两个 token。
#
# - 已等的秒数：`now - request.arrival_time`。
# - 键的其余字段保持原样。
# - 键要向内层策略要，而且是这个 `now` 的键；`Aging(PriorityOrder(), 0.5)` 也得能用。
#
# 为什么等待有了上限：比你晚到 d 秒、大小为 s 的请求，只有 `s + rate × d < 你的大小` 时，键才比你的小。
# 所以晚到超过 **（你的大小 − s）/ rate** 秒的，来多少都超不过你。`rate = 0` 时没有上限，那就是原来的 `SJF`。

# %% [markdown] lang="en" hint="ch03.5"
# 1. Two steps: get the inner key and take it apart; put it together again with another first field.
# 2. `first, *rest = self.policy.key(request, now)` takes a tuple apart, `(new, *rest)` puts one together.
#    Waiting makes the key *smaller*, so it is subtracted.
# 3. `first, *rest = self.policy.key(request, now)`; `waited = now - request.arrival_time`; `return (first -
#    ..., *rest)`.

# %% [markdown] lang="zh" hint="ch03.5"
# 1. 分两步：取来内层的键，拆开；换掉首字段，再拼回去。
# 2. `first, *rest = self.policy.key(request, now)` 把元组拆开，`(new, *rest)` 再拼起来。等待要让键变**小**，
#    所以是减。
# 3. `first, *rest = self.policy.key(request, now)`；`waited = now - request.arrival_time`；
#    `return (first - ..., *rest)`。

# %% [markdown] lang="en" explain="ch03.5"
# Here is a small surprise. Every key shrinks by the same `rate` a second, so the *difference* between two
# keys never changes: `size − rate × (now − arrival)` and `size + rate × arrival` sort alike, at any `now`.
# Linear aging is a static order in disguise, and the second form may be kept in a heap. (The first may not:
# two keys that were computed at different moments cannot be compared.)
#
# That is not so for every aging. SGLang's `hrrn` divides the wait by the work; there the order itself changes
# while nothing arrives, since short jobs rise faster than long ones.

# %% [markdown] lang="zh" explain="ch03.5"
# 这里藏着一个小小的意外。所有的键每秒都减去同样的 `rate`，所以两个键的**差**从来不变：
# `大小 − rate × (now − 到达)` 和 `大小 + rate × 到达`，不管在什么时刻，排出来的次序都一样。
# 线性老化其实是一种静态次序，写成后一种形式就能放进堆里。
# （前一种不行：在不同时刻算出来的两个键，不能放在一起比。）
#
# 并不是所有的老化都这样。SGLang 的 `hrrn` 用等待时间除以工作量；那里短作业升得比长作业快，
# 就算没有新请求，次序自己也会变。


# %% answer="ch03-answer-4" tags=["export"]
class Aging:
    """en: Another policy, but its first field shrinks by ``rate`` for every second waited.
    zh: 在另一个策略外面套一层：每等一秒，键的首字段减去 ``rate``。
    """

    static = False

    def __init__(self, policy, rate: float) -> None:
        self.policy, self.rate = policy, rate

    def key(self, request: Request, now: float) -> tuple:
        # TODO ch03.5
        # en: The inner policy's key, its first field less rate times the seconds waited.
        # zh: 内层策略的键，首字段减去 rate 乘以已等的秒数。
        first, *rest = self.policy.key(request, now)
        return (first - self.rate * (now - request.arrival_time), *rest)
        # END ch03.5


# %% check="ch03.5" points=3 level="core"
check("ch03.5")

# %% [markdown] lang="en"
# ## Stop here
#
# Read on when the five checks pass: from here on **your** policies decide. Stuck? `hint("ch03.5", 1)` to `3`,
# then `solution("ch03.5")`.

# %% [markdown] lang="zh"
# ## 先停在这里
#
# 五个检查都通过了，再往下看：后面做决定的全是**你的**策略。卡住了？先用 `hint("ch03.5", 1)` 到 `3`，
# 再用 `solution("ch03.5")`。

# %%
progress()

# %% [markdown] lang="en"
# ## Experiments: what each policy buys, and who pays
#
# The machine is the roofline of chapter 2: an H100, an 8-billion-parameter model, no batching yet.
# `answer(request)` gives the seconds from a request's start to each of its tokens, when it has the machine to
# itself.
#
# Two loads, both *synthetic* and drawn to the published quantiles of a trace: chats (prompts of about 1,000
# tokens) and long documents (about 7,000, one in ten above 27,000). `at_load` lets them arrive at random, so
# often that the machine is busy for the given share of the time.

# %% [markdown] lang="zh"
# ## 实验：每种策略带来什么，代价由谁付
#
# 机器用第 2 章的 roofline：一块 H100，一个 80 亿参数的模型，还没有批处理。`answer(request)` 给出一个请求独占机器时，
# 从开始到吐出每个 token 的秒数。
#
# 两种负载都是**合成**的，按真实 trace 公布的分位数生成：聊天（提示词大约 1,000 个 token）和长文档
# （大约 7,000 个，十个里有一个超过 27,000）。`at_load` 让它们随机到达，密到机器有给定比例的时间在忙。

# %%
from dataclasses import replace
from functools import cache

from decodelab import chapter
from decodelab.show.plots import compare, latency_ecdf, sweep
from decodelab.sim.hardware import GPUS, MODELS
from decodelab.workload import arriving, chat_like, long_document_like, poisson

ch02 = chapter("ch02")
cost = ch02.Roofline(MODELS["Llama-3.1-8B"], GPUS["H100 SXM"])


@cache
def answer(request):
    """en: Seconds from the start to each token, alone on the machine.
    zh: 独占机器时，从开始到每个 token 的秒数。
    """
    prompt_len = request.prompt_len
    seconds = [cost(prompt_len, prompt_len, prompt_len * (prompt_len + 1) // 2)]
    for context in range(prompt_len + 1, prompt_len + request.max_new_tokens):
        seconds.append(seconds[-1] + cost(1, context, context))
    return seconds


def job_seconds(request):
    return answer(request)[-1]


def at_load(requests, share, seed=0):
    """en: The same requests, arriving at random so that the machine is busy for ``share`` of the time.
    zh: 同样的请求，换成随机到达，让机器有 ``share`` 比例的时间在忙。
    """
    mean = sum(map(job_seconds, requests)) / len(requests)
    return arriving(requests, poisson(share / mean, len(requests), seed))


chats = at_load(chat_like(400, seed=1), 0.8)
documents = at_load(long_document_like(400, seed=1), 0.8)
one = Request(0, 0.0, 1000, 10)
print(
    tr(
        en="1,000 prompt tokens, 10 output tokens, in ms:", zh="1,000 个提示词 token、10 个输出 token，毫秒："
    ),
    f"{1000 * answer(one)[0]:.1f}, {10 * 1000 * cost(1, 1000, 1000):.1f}",
)

# %% [markdown] lang="en"
# ### Experiment 1 · The same load, five orders
#
# Both loads keep the machine busy for 80 % of the time. `SJF` runs twice: once by tokens, once by the seconds
# that the cost model predicts. (Both are told the length of the answer beforehand, which no real server is.
# Exercise 3 takes that away.)
#
# **Predict:** which of the two `SJF` has the smaller mean? Can one of them be worse than first-come, and on
# which load? And whose *longest* wait is the shortest?

# %% [markdown] lang="zh"
# ### 实验 1 · 同样的负载，五种次序
#
# 两种负载都让机器有 80% 的时间在忙。`SJF` 跑两遍：一遍按 token 数，一遍按成本模型预测的秒数。
# （两遍都事先知道回答有多长，真实的服务器可不知道。练习 3 会把这一点拿掉。）
#
# **先猜：** 两个 `SJF` 谁的平均值小？会不会有哪一个比先来先服务还差，在哪种负载上？哪一种的**最长**等待最短？

# %%
MODES = {
    "FCFS": lambda: PolicyQueue(FCFS()),
    "SJF, tokens": lambda: PolicyQueue(SJF()),
    "SJF, seconds": lambda: PolicyQueue(SJF(job_seconds)),
    "Aging(SJF), 0.2": lambda: PolicyQueue(Aging(SJF(job_seconds), 0.2)),
    "two classes": lambda: PriorityScheduler(FCFS(), burst=4),
}


def fifth_urgent(requests):
    return [replace(request, priority=int(request.request_id % 5 == 0)) for request in requests]


def waits(served):
    return [ch02.ttft(timing) for timing in served]


def figures(served):
    times = waits(served)
    urgent = [ch02.ttft(timing) for timing in served if timing.request_id % 5 == 0]
    return {
        "TTFT mean, s": sum(times) / len(times),
        "p95, s": ch02.percentile(times, 95),
        "max, s": max(times),
        "p95 of urgent, s": ch02.percentile(urgent, 95),
    }


runs = {
    load: {mode: serve(fifth_urgent(requests), make(), answer) for mode, make in MODES.items()}
    for load, requests in (("chats", chats), ("documents", documents))
}
for load, modes in runs.items():
    print(f"{load:16}", *(f"{name:>20}" for name in figures(modes["FCFS"])))
    for mode in MODES:
        print(f"{mode:16}", *(f"{value:20.2f}" for value in figures(modes[mode]).values()))

# %%
compare({mode: figures(served) for mode, served in runs["chats"].items()})

# %%
latency_ecdf({mode: waits(served) for mode, served in runs["documents"].items()}, log=True)

# %% [markdown] lang="en"
# *First figure: chats, a panel a metric, a bar a mode; urgent is every fifth request. Second: documents; how many
# per cent of the requests (y) had their first token within so many seconds (x, logarithmic).*
#
# - **By seconds is the right size.** A generated token costs as much as some 300 prompt tokens, so "short"
#   means few *output* tokens. Counting all tokens alike sorts long documents with short answers to the back:
#   on that load its p95 is worse than that of first-come.
# - **The mean is bought from the few.** `SJF` by seconds takes a third off the mean of the chats (by tokens a
#   seventh), and the longest wait grows to more than three times; it falls on one of the ten largest jobs. The
#   *shortest* longest wait is first-come's on both loads, 9 and 17 s: there nobody is overtaken.
# - **Aging keeps nearly all of the mean's gain** on the chats and takes back more than half of that longest wait.
#   Not on the documents: their largest job takes 10 s, so at this rate anyone who comes within some 50 s may
#   still pass it. A rate belongs to a load.
# - **Two classes cost nothing on average here.** Of the chats every fifth, the urgent one, waits a third as
#   long; the others pay.
#
# **Takeaway.** No row is best in every column. A policy is a choice of who waits.

# %% [markdown] lang="zh"
# 图：第一张是聊天负载，一格是一个指标，一条是一种方式；每五个请求里有一个紧急的（urgent）。第二张是长文档：有百分之几的请求（纵轴）
# 在多少秒之内（横轴，对数）拿到了首 token。
#
# - **大小要按秒算。** 生成一个 token 的花费，抵得上读大约 300 个提示词 token，所以“短”的意思是**输出**短。
#   把所有 token 一视同仁，就会把“文档长、回答短”的请求排到后面：在长文档负载上，它的 p95 比先来先服务还差。
# - **平均值是从少数人身上省出来的。** 按秒算的 `SJF` 让聊天的平均值降了三分之一（按 token 算只降七分之一），
#   最长等待却涨到三倍多，轮到的是最大的十个作业之一。**最长**等待最短的，两种负载上都是先来先服务，9 秒和 17 秒：
#   在它那里，谁也不会被人超过。
# - **在聊天负载上，老化保住了平均值的大部分好处**，又把那个最长等待压回去一大半。长文档上却没有：那里最大的作业要 10 秒，
#   按这个 rate，晚到不超过 50 秒左右的都还能超过它。rate 取多少，要看负载。
# - **分成两级，在这里没有拉高平均值。** 聊天负载里，每五个中那个紧急的，等待只剩三分之一；账由其余四个付。
#
# **结论。** 没有哪一行在每一列都最好。选策略，就是选让谁等。

# %% [markdown] lang="en"
# ### Experiment 2 · A bound that holds against an adversary
#
# A long job arrives at second 0. From then on short ones arrive, a little faster than the machine can serve
# them, for a minute. The size is in seconds here, so `rate` is "seconds of size a second of waiting".
#
# By the bound, nobody who comes more than `(long − short) / rate` seconds later overtakes it.
#
# **Predict:** halve the rate: how does the long job's wait change? And what do the short ones pay?

# %% [markdown] lang="zh"
# ### 实验 2 · 顶得住对手的上限
#
# 第 0 秒来了一个长作业。从这一刻起，短作业源源不断，来得比机器做得还快一点点，持续一分钟。
# 这里的大小以秒计，所以 `rate` 的意思是“每等一秒，大小减去几秒”。
#
# 按照上限，晚到超过 `(长 − 短) / rate` 秒的，谁也超不过它。
#
# **先猜：** rate 减半，长作业的等待怎么变？短作业又付出多少？

# %%
long, short = Request(0, 0.0, 1000, 400), Request(1, 0.0, 200, 40)
gap = 0.99 * job_seconds(short)
adversary = [long, *(replace(short, request_id=n, arrival_time=(n - 1) * gap) for n in range(1, 301))]


def queued(timing):
    return timing.scheduled_time - timing.arrival_time


measured, bound, others = {}, {}, {}
for rate in (2, 1, 0.5, 0.2, 0.1, 0.05):
    queue = PolicyQueue(Aging(SJF(job_seconds), rate))
    times = {t.request_id: queued(t) for t in serve(adversary, queue, answer)}
    measured[rate], bound[rate] = times.pop(0), (job_seconds(long) - job_seconds(short)) / rate
    others[rate] = sum(times.values()) / len(times)
    print(f"rate {rate}: {measured[rate]:.1f} s, {bound[rate]:.1f} s, {others[rate]:.2f} s")
(starved,) = (t for t in serve(adversary, PolicyQueue(SJF(job_seconds)), answer) if t.request_id == 0)
print(f"SJF: {queued(starved):.1f} s")
sweep(
    {"wait of the long one": measured, "bound": bound, "mean of the others": others},
    "rate",
    "s",
    log=True,
)

# %% [markdown] lang="en"
# *x: rate, logarithmic. y: seconds. How long the long job waited before it began, the bound on who may
# overtake it, and the mean wait of the short ones.*
#
# The wait follows the bound: it doubles when the rate is halved, and it exceeds it by a fraction of a second,
# since those who came before the bound still have to be served. Plain `SJF` begins the long one when the last
# of 300 is through, and with more of them it would be later: there is no bound.
#
# The short ones wait *longer* at a higher rate: the long job is let in sooner, and all of them stand behind
# it.
#
# **Takeaway.** `rate` is the exchange between mean and longest wait, and you can put the bound into a
# contract.

# %% [markdown] lang="zh"
# 图：横轴是 rate（对数），纵轴是秒。三条线分别是：长作业开始之前等了多久，上限（晚到多少秒以内还能超过它），
# 以及短作业的平均等待。
#
# 长作业的等待紧跟着上限走：rate 减半，等待翻倍；实测比上限多出零点几秒，
# 因为在界限之前来的那些，总还得先服务完。
# 单纯的 `SJF` 要等 300 个短的全部走完才轮到它，短的再多，它就再等：没有上限。
#
# rate 越大，短作业反而等得**更久**：长作业早早上场，它们就都得在后面等着。
#
# **结论。** `rate` 是平均等待和最长等待之间的兑换率，而那个上限，可以写进合同。

# %% [markdown] lang="en"
# ### Experiment 3 · When everybody is urgent
#
# Chapter 1 asked which promise can be kept when everybody is urgent. The machine is busy for 90 % of the
# time; the share of urgent requests rises from 10 % to 90 %. Three guards: after 2, after 9, never.
#
# **Predict:** from which share on does the guard matter? Can a normal request be *better* off than an urgent
# one?

# %% [markdown] lang="zh"
# ### 实验 3 · 当人人都紧急
#
# 第 1 章问过：人人都紧急的时候，什么样的承诺还兑现得了？这里机器有 90% 的时间在忙，紧急请求的比例从 10% 升到 90%。
# 保险有三种：连续 2 个之后、9 个之后、从不触发。
#
# **先猜：** 比例高到多少，保险才派上用场？普通请求有没有可能过得**比紧急的还好**？

# %%
import random

crowd = at_load(chat_like(400, seed=1), 0.9)
curves: dict = {}
for name, burst in (("2", 2), ("9", 9), ("never", 10**9)):
    for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        rng = random.Random(1)
        mixed = [replace(request, priority=int(rng.random() < share)) for request in crowd]
        urgent = {request.request_id for request in mixed if request.priority}
        served = serve(mixed, PriorityScheduler(FCFS(), burst), answer)
        for kind, those in (("urgent", True), ("normal", False)):
            its = [ch02.ttft(t) for t in served if (t.request_id in urgent) is those]
            curves.setdefault(f"{kind}, {name}", {})[share] = ch02.percentile(its, 95)
for name, curve in curves.items():
    print(f"{name:14}", *(f"{share:.0%}: {curve[share]:.1f} s  " for share in (0.2, 0.5, 0.8, 0.9)))
sweep({name: curve for name, curve in curves.items() if "9" not in name}, "urgent share", "s")

# %% [markdown] lang="en"
# *x: share of urgent requests. y: TTFT p95 in seconds, of each class, with the guard after 2 and without
# any. (The guard after 9 is printed above.)*
#
# At 20 % the guard changes next to nothing: rows of urgent requests are short anyway. At 80 % and more the guard
# after 2 decides: without it a normal request waits half a minute and longer. The one after 9 bites at 90 % only,
# 32 s against 41. And at 90 % with `burst=2` things are upside down: one turn in three goes to the one request
# in ten that is normal, so **it waits less than the urgent ones**. A guard that gives the normal class a much
# larger share of turns than it has of the requests makes it the fast lane.
#
# **Takeaway.** A promise to a class is worth something while the class is small. Take `burst` from the shares
# you expect: near urgent / normal, here 9, the guard still bounds the wait and turns nothing upside down.

# %% [markdown] lang="zh"
# 图：横轴是紧急请求的比例，纵轴是两级各自的 TTFT p95（秒）：连续 2 个之后就让的，和没有保险的。
# （9 个之后才让的，数字在上面打印出来了。）
#
# 比例是 20% 时，有没有保险几乎一样：紧急的本来就连不成长串。到了 80% 以上，2 个之后的保险就成了关键：没有它，
# 普通请求要等半分钟以上。9 个之后的，到 90% 才起作用：32 秒对 41 秒。而在 90% 加 `burst=2` 的地方，世界倒了过来：十个里才一个普通的，却占去三分之一的机会，
# **它等得比紧急的还短**。保险分给普通级的机会，要是远远超过它在请求里占的比例，普通级就成了快车道。
#
# **结论。** 对某一级的承诺，只有这一级人少的时候才值钱。`burst` 要按预计的比例来定：
# 取“紧急 / 普通”左右，这里就是 9，等待照样有上限，次序也不会颠倒。

# %% [markdown] lang="en"
# ## TODO ch03.6 · How even is it? Jain's index
#
# *Extension from here on: its points are counted apart, and no later chapter needs it.*
#
# Fairness as one number, by Jain, Chiu and Hawe (1984). For shares x₁ … xₙ (none
# is negative):
#
# ```text
#                (x1 + x2 + ... + xn)^2
#   jain(x) = ----------------------------
#              n (x1^2 + x2^2 + ... + xn^2)
# ```
#
# It is 1 where all are equal, 1/n where one has everything, and k/n where k of n share evenly and the rest
# have nothing. Fill in `jain`. Where there is nothing to compare, no values or only zeros, return 1.0.

# %% [markdown] lang="zh"
# ## TODO ch03.6 · 有多平均？Jain 指数
#
# 从这里开始是**扩展部分**：单独计分，后面的章节用不到它。
#
# 用一个数来表示公平，是 Jain、Chiu 和 Hawe 1984 年提出的。份额为 x₁ …… xₙ（都不为负）：
#
# ```text
#                (x1 + x2 + ... + xn)^2
#   jain(x) = ----------------------------
#              n (x1^2 + x2^2 + ... + xn^2)
# ```
#
# 人人相等时是 1；一个人独占时是 1/n；n 个人里有 k 个平分、其余什么也没有时，是 k/n。
# 请补全 `jain`。没有可比的（一个值也没有，或者全是 0），返回 1.0。

# %% [markdown] lang="en" hint="ch03.6"
# 1. Two sums: of the values, and of their squares. Think of what the denominator can be.
# 2. `sum(values) ** 2` over `len(values) * sum(x * x for x in values)`. The latter is 0 exactly where there
#    is nothing to compare, so one test covers both cases.
# 3. `squares = len(values) * sum(x * x for x in values)`; return the quotient `if squares else 1.0`.

# %% [markdown] lang="zh" hint="ch03.6"
# 1. 两个和：值的和，平方的和。想一想分母什么时候会是 0。
# 2. `sum(values) ** 2` 除以 `len(values) * sum(x * x for x in values)`。分母为 0，恰好就是没有可比的时候，
#    所以判断一次就够了。
# 3. `squares = len(values) * sum(x * x for x in values)`；返回“商 `if squares else 1.0`”。

# %% [markdown] lang="en" explain="ch03.6"
# The index does not change when all shares are multiplied by the same number, so units do not matter. It says
# nothing about *what* was shared: the next experiment turns on that.

# %% [markdown] lang="zh" explain="ch03.6"
# 所有份额同乘一个数，指数不变，所以用什么单位都行。至于分的**是什么**，它一句也没说：下一个实验要看的正是这个。


# %% answer="ch03-answer-5" tags=["export"]
def jain(values: list[float]) -> float:
    """en: Jain's fairness index of shares: 1 if all are equal, 1/n if one has everything; 1 for nothing to share.
    zh: 份额的 Jain 公平指数：人人相等为 1，一人独占为 1/n；没有可分的为 1。
    """
    # TODO ch03.6
    # en: The square of the sum over n times the sum of the squares; 1.0 where that denominator is 0.
    # zh: 和的平方，除以 n 乘平方和；分母为 0 时返回 1.0。
    squares = len(values) * sum(x * x for x in values)
    return sum(values) ** 2 / squares if squares else 1.0
    # END ch03.6


# %% check="ch03.6" points=1 level="extension"
check("ch03.6")

# %% [markdown] lang="en"
# ### Experiment 4 · Fair in which currency?
#
# Two ways to say what a user gets. *Speed*: the time that the job takes alone over the time it took in the
# queue and on the machine, 1 at best. *Wait*: the seconds before the first token, a burden more than a share, but
# one that can be even or not. We move from `SJF` (rate 0) over aging to first-come, and put Jain's index of either
# beside the mean TTFT.
#
# **Predict:** which end is fairer?

# %% [markdown] lang="zh"
# ### 实验 4 · 用哪种货币算公平？
#
# 一个用户得到了什么，有两种说法。**速度**：独占机器要的时间，除以排队加服务实际花的时间，最好是 1。
# **等待**：首 token 之前的秒数，与其说是份额，不如说是负担，但同样可以分得平均或不平均。从 `SJF`（rate 为 0）出发，经过老化，一直走到先来先服务，
# 把两种说法的 Jain 指数和平均 TTFT 放在一起看。
#
# **先猜：** 哪一头更公平？

# %%
alone = {request.request_id: job_seconds(request) for request in chats}
rows = [
    ("SJF", SJF(job_seconds)),
    *((f"{r:g}", Aging(SJF(job_seconds), r)) for r in (0.05, 0.2, 1, 5)),
    ("FCFS", FCFS()),
]
fair = {}
for name, policy in rows:
    served = serve(chats, PolicyQueue(policy), answer)
    fair[name] = {
        "TTFT mean, s": sum(waits(served)) / len(served),
        "Jain of speed": jain([alone[t.request_id] / ch02.e2e(t) for t in served]),
        "Jain of wait": jain(waits(served)),
    }
compare(fair)

# %% [markdown] lang="en"
# *One row a policy, from `SJF` over rates of aging down to first-come; a panel a number.*
#
# The two verdicts are opposite. Measured in speed, `SJF` is the fairest: a job that takes half a second is
# not made to wait for ten. Measured in waiting, first-come is: a wait depends on the moment, not on the job. Even
# so its 0.45 is far from even: some moments are crowded, others are not.
#
# **Takeaway.** "Fair" without "in what" is no claim. And neither number sees the one who waited for half a
# minute: always print the maximum beside an index.

# %% [markdown] lang="zh"
# 图：一行是一个策略，从 `SJF` 经过各种 rate 的老化，到先来先服务；一格是一个数。
#
# 两种说法的结论正好相反。按速度算，`SJF` 最公平：只要半秒的活，不会被逼着等十秒。
# 按等待算，先来先服务最公平：等多久看来的时刻，不看来办什么事。即便如此，0.45 离平均也还很远：有的时刻挤，有的时刻空。
#
# **结论。** 不说清“拿什么算”，谈公平就没有意义。而且这两个数都看不见那个等了半分钟的人：
# 给出指数的时候，旁边一定要放上最大值。

# %% [markdown] lang="en"
# ## TODO ch03.7 · Round robin
#
# So far whoever began also finished. Now a request has the machine for a **slice** of tokens, then the next
# one has it. Fill in `RoundRobin.turn(now)`: it returns whose turn it is and for how many tokens, `(request,
# tokens)`, or `None`.
#
# - The first in line gets `slice_tokens` tokens, or those that it still lacks if they are fewer.
# - If it lacks more after that, it goes to the end of the line **at once**; those who come during its slice
#   stand behind it. If not, it is done and out.
# - `self.left[request_id]` is how many tokens a request still lacks. Keep it right.
# - A cancelled one never gets another turn; `cancel` is written.

# %% [markdown] lang="zh"
# ## TODO ch03.7 · 轮转
#
# 到现在为止，谁开始了就做到底。这回改一改：一个请求只占用机器一个**时间片**（若干个 token），然后换下一个。
# 补全 `RoundRobin.turn(now)`：返回这一轮是谁、做几个 token，也就是 `(request, tokens)`；没有人就返回 `None`。
#
# - 排头的得到 `slice_tokens` 个 token；剩下的不够这么多，就给剩下的。
# - 做完这一轮还有剩，就**立刻**排到队尾，在它这个时间片里新来的人站在它后面。没有剩的，就算完成，离开。
# - `self.left[request_id]` 是一个请求还差几个 token，要记对。
# - 取消了的再也轮不到；`cancel` 已经写好。

# %% [markdown] lang="en" hint="ch03.7"
# 1. Four small steps: nobody there; take the first; how many tokens; back to the end or not.
# 2. `self.turns.popleft()` takes the first, `self.turns.append(...)` puts one at the end, and `min` of slice
#    and rest is the number of tokens. Subtract before you decide about the end of the line.
# 3. `request = self.turns.popleft()`; `tokens = min(self.slice_tokens, self.left[request.request_id])`; take
#    them off `self.left[...]`; `if self.left[...]:` append; return both.

# %% [markdown] lang="zh" hint="ch03.7"
# 1. 四小步：没有人怎么办；取排头；算几个 token；要不要回到队尾。
# 2. `self.turns.popleft()` 取排头，`self.turns.append(...)` 放到队尾；时间片和剩余取 `min`，就是这一轮的 token 数。
#    先减掉，再决定要不要回队尾。
# 3. `request = self.turns.popleft()`；`tokens = min(self.slice_tokens, self.left[request.request_id])`；
#    从 `self.left[...]` 里减掉；`if self.left[...]:` 就放回队尾；最后把两个一起返回。

# %% [markdown] lang="en" explain="ch03.7"
# The tokens of all turns of a request add up to what it asked for, and none is larger than a slice: that is
# all there is to check. With n in line, whoever comes waits for at most n slices until its first turn,
# however long the others' answers are. That is a bound without any knowledge of sizes.

# %% [markdown] lang="zh" explain="ch03.7"
# 一个请求各轮的 token 加起来，正好是它要的总数；哪一轮都不超过一个时间片。要检查的就是这些。
# 队里有 n 个人，新来的最多等 n 个时间片就轮到第一次，不管别人的回答有多长。
# 这个上限不需要知道任何人的大小。


# %% answer="ch03-answer-6" tags=["export"]
class RoundRobin:
    """en: Everyone in turn, for a slice of tokens each.
    zh: 大家轮流，每次一个时间片（若干个 token）。
    """

    def __init__(self, slice_tokens: int) -> None:
        self.slice_tokens = slice_tokens
        self.turns: deque = deque()
        self.left: dict = {}

    def add(self, request: Request, now: float) -> None:
        self.turns.append(request)
        self.left[request.request_id] = request.max_new_tokens

    def cancel(self, request_id) -> None:
        self.turns = deque(request for request in self.turns if request.request_id != request_id)

    def turn(self, now: float) -> tuple | None:
        """en: Whose turn it is, and for how many tokens; None if nobody waits.
        zh: 轮到谁、做几个 token；没有人在等就返回 None。
        """
        # TODO ch03.7
        # en: The first in line, for a slice or what it lacks; to the end of the line if it lacks more.
        # zh: 排头的做一个时间片，或者做完剩下的；还有剩就回到队尾。
        if not self.turns:
            return None
        request = self.turns.popleft()
        tokens = min(self.slice_tokens, self.left[request.request_id])
        self.left[request.request_id] -= tokens
        if self.left[request.request_id]:
            self.turns.append(request)
        return request, tokens
        # END ch03.7


# %% check="ch03.7" points=2 level="extension"
check("ch03.7")

# %% [markdown] lang="en"
# ### Experiment 5 · "A time slice of 10 to 30 ms"
#
# One reads that a slice should be 10 to 30 ms. Here a token takes about 5 ms, so that is 2 to 6 tokens. We
# sweep the slice from 1 token to all of them, with two prices for a change of request: nothing, if
# everybody's KV cache stays in GPU memory; 5 ms, if it does not. (1,000 tokens are 131 MB of KV cache; out
# and in again at 50 GB/s, a round number chosen for the arithmetic, takes 5.2 ms.)
#
# **Predict:** which slice is best for TTFT, which for the whole answer? Does 10 to 30 ms survive the 5 ms?

# %% [markdown] lang="zh"
# ### 实验 5 · “时间片取 10 到 30 毫秒”
#
# 常听人说，时间片该取 10 到 30 毫秒。这里一个 token 大约 5 毫秒，也就是 2 到 6 个 token。
# 我们让时间片从 1 个 token 一直变到全部，换人的代价取两种：大家的 KV cache 都放得下，不花钱；
# 放不下，每换一次 5 毫秒。（1,000 个 token 的 KV cache 是 131 MB；按 50 GB/s 换出再换入要 5.2 毫秒。
# 50 GB/s 是为了好算取的整数。）
#
# **先猜：** 对 TTFT 来说哪种时间片最好？对整个回答呢？10 到 30 毫秒，经得起那 5 毫秒吗？


# %%
def serve_turns(requests, robin, answer, switch=0.0):
    """en: As serve, but turn by turn; a change of request takes ``switch`` seconds.
    zh: 和 serve 一样，只是一轮一轮来；换一个请求要 ``switch`` 秒。
    """
    coming = sorted(requests, key=lambda request: request.arrival_time)[::-1]
    now, last = 0.0, None
    served: dict = {}
    while True:
        while coming and coming[-1].arrival_time <= now:
            request = coming.pop()
            robin.add(request, request.arrival_time)
        if turn := robin.turn(now):
            request, tokens = turn
            now += switch if last not in (None, request.request_id) else 0.0
            last = request.request_id
            start = Timing(last, request.arrival_time, request.prompt_len, now, [], "length")
            times, seconds = served.setdefault(last, start).token_times, answer(request)
            done = len(times)
            before = seconds[done - 1] if done else 0.0
            times += [now + after - before for after in seconds[done : done + tokens]]
            now = times[-1]
        elif coming:
            now = coming[-1].arrival_time
        else:
            return list(served.values())


SLICES = (1, 2, 4, 8, 16, 64, 256, 1024)
first: dict = {}
whole: dict = {}
for switch in (0.0, 0.005):
    for tokens in SLICES:
        served = serve_turns(chats, RoundRobin(tokens), answer, switch)
        ends = [ch02.e2e(t) for t in served]
        first.setdefault(f"{switch:g} s", {})[tokens] = ch02.percentile(waits(served), 95)
        whole.setdefault(f"{switch:g} s", {})[tokens] = sum(ends) / len(ends)
for name in first:
    print(tr(en=f"switch {name}: TTFT p95, then E2E mean", zh=f"换人 {name}：先 TTFT p95，再 E2E 平均"))
    print("  ", *(f"{tokens}: {first[name][tokens]:.2f} {whole[name][tokens]:.1f}  " for tokens in SLICES))
sweep(first, "tokens", "s", log=True)

# %%
sweep(
    {name: {k: v for k, v in curve.items() if k >= 4} for name, curve in whole.items()},
    "tokens",
    "s",
    log=True,
)

# %% [markdown] lang="en"
# *x: slice in tokens, logarithmic. y: seconds. Above: p95 of TTFT, for a free change and for one of 5 ms.
# Below: mean of E2E, from 4 tokens on.*
#
# Where a change is free, the hypothesis holds for TTFT: slices of 2 to 6 tokens bring the p95 from more than
# 6 seconds to a fifth of a second, and little is left to gain below. The price stands in the other figure:
# the mean of the whole answer grows by a quarter, since all unfinished answers now share the machine. At 5 ms
# a change, slices of 1 and 2 tokens spend a half and a third of the time on changing, and the queue runs
# away: 153 and 25 s for a whole answer. Of the slices tried, 4 tokens, within the range, is then the best for TTFT,
# and makes the whole answer take almost three times as long (8.7 s against 3.1). With 8 tokens it is 1.7 times,
# and TTFT is hardly worse.
#
# **Takeaway.** The right slice is not a number of milliseconds. It is *many times what a change costs*, and
# as short as that allows. Chapter 4 makes changing free in another way: everybody runs in the same step.

# %% [markdown] lang="zh"
# 图：横轴是时间片（token 数，对数），纵轴是秒。上图是 TTFT 的 p95，换人不花钱和花 5 毫秒两种情形；
# 下图是 E2E 的平均，从 4 个 token 起。
#
# 换人不花钱时，这个说法对 TTFT 成立：2 到 6 个 token 的时间片，把 p95 从 6 秒多降到五分之一秒，
# 再短也多不出多少好处。代价写在另一张图上：整个回答的平均时间涨了四分之一，因为所有没做完的回答都在分这台机器。
# 换一次要 5 毫秒时，1、2 个 token 的时间片分别有一半和三分之一的时间花在换人上，队伍就失控了：
# 一个完整的回答要 153 秒和 25 秒。试过的时间片里，这时对 TTFT 最好的是 4 个 token，
# 就在这个范围里，可整个回答要的时间差不多是原来的三倍（8.7 秒对 3.1 秒）。换成 8 个 token，只是 1.7 倍，
# TTFT 也差不了多少。
#
# **结论。** 合适的时间片不是多少毫秒，而是**换一次人的代价的许多倍**，在此前提下越短越好。
# 第 4 章用另一种办法让换人不花钱：大家在同一步里一起跑。

# %% [markdown] lang="en"
# ## TODO ch03.8 · Those who have given up
#
# Users do not wait for ever. `TimeoutQueue(queue, timeout)` stands around any queue. Fill in `pop(now)`:
#
# - First, **everyone** who has waited longer than `timeout` seconds leaves, whoever is next or not:
#   `self._leave(request_id, "timeout")` writes the reason down and cancels it in the inner queue. Exactly
#   `timeout` is still in time.
# - Then the inner queue says who is next. Whoever is served waits no more: out of `self.waiting`.
# - Nobody left: `None`.

# %% [markdown] lang="zh"
# ## TODO ch03.8 · 等不下去的人
#
# 用户不会永远等下去。`TimeoutQueue(queue, timeout)` 可以套在任何队列外面。请补全 `pop(now)`：
#
# - 首先，等待超过 `timeout` 秒的**全都**离开，不管轮没轮到：`self._leave(request_id, "timeout")`
#   会记下原因，并在内层队列里取消它。正好等于 `timeout` 的还算及时。
# - 然后由内层队列决定下一个是谁。得到服务的不再等待，要从 `self.waiting` 里拿掉。
# - 一个也不剩：返回 `None`。

# %% [markdown] lang="en" hint="ch03.8"
# 1. Two parts, in this order: who must go, then who may come. The first needs everybody who waits, not just
#    the next one.
# 2. Collect the late ones in a list *before* you remove any: a dict must not change while one walks over it.
#    The request that the inner queue returns may be `None`.
# 3. `late = [r.request_id for r in self.waiting.values() if now - r.arrival_time > self.timeout]`;
#    `self._leave(...)` for each; `request = self.queue.pop(now)`; `if request is not None: del
#    self.waiting[request.request_id]`; return it.

# %% [markdown] lang="zh" hint="ch03.8"
# 1. 分两步，次序不能反：先看谁该走，再看谁可以上。第一步要看所有在等的人，不只是下一个。
# 2. 先把迟了的收进一个列表，**再**动手删：遍历字典的时候不能改它。内层队列返回的请求，可能是 `None`。
# 3. `late = [r.request_id for r in self.waiting.values() if now - r.arrival_time > self.timeout]`；
#    对每一个调用 `self._leave(...)`；`request = self.queue.pop(now)`；
#    `if request is not None: del self.waiting[request.request_id]`；最后返回它。

# %% [markdown] lang="en" explain="ch03.8"
# Dropping only the late ones that happen to come out of the queue would be simpler, and wrong: a long job at
# the end of an `SJF` queue would never be told that nobody waits for it. The user is gone, the entry stays.
#
# A reason for everyone who leaves is not decoration. A request that is neither served nor refused is a leak,
# and it is the one that somebody will ask about.

# %% [markdown] lang="zh" explain="ch03.8"
# 只丢掉碰巧排到的那些迟到者，写起来更省事，却是错的：`SJF` 队尾的长作业永远等不到一句“没人在等你了”。
# 人早走了，条目还在。
#
# 每个离开的都要有原因，这不是装饰。一个请求既没被服务，也没被拒绝，就是漏掉了；
# 偏偏就是它，迟早有人来问。


# %% answer="ch03-answer-7" tags=["export"]
class TimeoutQueue:
    """en: Another queue, in which nobody waits for longer than ``timeout`` seconds; ``gone`` says who left and why.
    zh: 在另一个队列外面套一层：谁也不会等超过 ``timeout`` 秒；``gone`` 记着谁走了、为什么。
    """

    def __init__(self, queue, timeout: float) -> None:
        self.queue, self.timeout = queue, timeout
        self.waiting: dict = {}
        self.gone: dict = {}

    def add(self, request: Request, now: float) -> None:
        self.queue.add(request, now)
        self.waiting[request.request_id] = request

    def cancel(self, request_id) -> None:
        if request_id in self.waiting:
            self._leave(request_id, "cancelled")

    def _leave(self, request_id, reason: str) -> None:
        del self.waiting[request_id]
        self.queue.cancel(request_id)
        self.gone[request_id] = reason

    def pop(self, now: float) -> Request | None:
        """en: Send the late ones away, then take out the request that is served next; None if nobody waits.
        zh: 先送走迟了的，再取出下一个要服务的请求；没有人在等就返回 None。
        """
        # TODO ch03.8
        # en: All who have waited longer than timeout leave; then the inner queue's next one, no longer waiting.
        # zh: 等待超过 timeout 的全都离开；再取内层队列的下一个，它不再等待。
        late = [r.request_id for r in self.waiting.values() if now - r.arrival_time > self.timeout]
        for request_id in late:
            self._leave(request_id, "timeout")
        request = self.queue.pop(now)
        if request is not None:
            del self.waiting[request.request_id]
        return request
        # END ch03.8


# %% check="ch03.8" points=2 level="extension"
check("ch03.8")

# %% [markdown] lang="en"
# ### Experiment 6 · Sending people away so that more are content
#
# Overload: requests arrive 1.3 times as fast as the machine can serve them. Our users are content with a
# first token within 5 seconds. First-come, with timeouts of 2, 5, 10 and 20 seconds and without any.
#
# **Predict:** who has more content users, the queue that keeps everybody or the one that sends people away?

# %% [markdown] lang="zh"
# ### 实验 6 · 送走一些人，满意的反而更多
#
# 过载：请求来得比机器做得快，是它的 1.3 倍。用户能接受的首 token 延迟是 5 秒。
# 用先来先服务，超时设成 2、5、10、20 秒，再加上不设超时的。
#
# **先猜：** 满意的用户哪边多？是一个也不赶走的队列，还是会赶人的？

# %%
overload = at_load(chat_like(400, seed=1), 1.3)
outcome = {}
for timeout in (2, 5, 10, 20, float("inf")):
    leaving = TimeoutQueue(PolicyQueue(FCFS()), timeout)
    served = serve(overload, leaving, answer)
    content = sum(wait <= 5 for wait in waits(served))
    outcome["none" if timeout == float("inf") else f"{timeout} s"] = {
        "sent away": len(leaving.gone),
        "content": content,
        "TTFT p95, s": ch02.percentile(waits(served), 95),
    }
compare(outcome)

# %% [markdown] lang="en"
# *One row a timeout; panels: requests sent away, requests whose first token came within 5 s, p95 of TTFT of
# those served.*
#
# Without a timeout 43 of 400 are content: the early ones. The rest are all served, each too late, because the
# machine works through a queue whose users have long given up. With a timeout of 5 seconds 73 are sent away
# and 326 are content.
#
# **Takeaway.** In overload somebody must lose. Without a rule everybody does. The timeout that helps is the
# one that users have anyway: serving later than that is work for nobody.

# %% [markdown] lang="zh"
# 图：一行是一种超时；三格依次是：送走的请求数，5 秒之内拿到首 token 的请求数，得到服务的请求的 TTFT p95。
#
# 不设超时，400 个里只有 43 个满意，都是来得早的。其余的全都服务了，也全都太迟：机器一直在处理一条早就没人等的队。
# 超时设成 5 秒，送走 73 个，满意的有 326 个。
#
# **结论。** 过载的时候总得有人吃亏；不定规矩，就人人吃亏。有用的超时，就是用户本来的耐心：过了那个点再服务，等于白干。

# %% [markdown] lang="en"
# ## In real systems
#
# Read on 2026-11-29, in the sources named; such things change from version to version.
#
# - **vLLM 0.33.0** orders its waiting requests by `fcfs` or by `priority`, and `priority` is the key of our
#   `PriorityOrder`: priority (there the *lower* value first), arrival time, id. It has no aging: driven with
#   a steady stream of priority 0, a request of priority 5 did not run while the stream lasted.
#   *(`vllm/v1/core/sched/`, read and driven.)*
# - **SGLang, commit `00550cd`**, has both of our cures in one file. `hrrn` ages by the ratio of waiting to
#   work, with waiting counted in *tokens prefilled meanwhile* instead of seconds; `shortest-prefill-first`
#   (marked experimental) is `SJF` by the uncached part of the prompt, with no aging. `lof` is the opposite of
#   ours: the longest output first. The sign of a priority is a setting.
#   ([schedule_policy.py](https://github.com/sgl-project/sglang/blob/00550cd11b35def9d584bf761a1e32729c20a21d/python/sglang/srt/managers/schedule_policy.py))
# - **Triton Inference Server** has in its dynamic batcher what the last TODOs build: priority levels that may
#   bypass each other, for each level a maximum queue length, and a timeout after which a request is rejected or
#   deferred.
#   ([batcher.md](https://github.com/triton-inference-server/server/blob/06151b8b074e6e22b582587eef944954c58bcbfa/docs/user_guide/batcher.md))
# - **FastServe** (Wu et al., NSDI '26) does round robin with levels: after each token it may preempt, and a
#   request joins at a level that fits its prompt's length, which is known, where the answer's is not. Its
#   authors have to move KV cache between GPU and host ahead of time: the cost of a change in experiment 5.
#   ([paper](https://www.usenix.org/conference/nsdi26/presentation/wu-bingyang))
# - **VTC** (Sheng et al., OSDI '24) answers experiment 4 with a currency of its own: what a *client* gets is counted in
#   input and output tokens, and the difference between two clients who both have requests waiting is bounded.
#   ([arXiv 2401.00588](https://arxiv.org/abs/2401.00588))

# %% [markdown] lang="zh"
# ## 真实系统怎么做
#
# 以下内容于 2026-11-29 查自所列出处；这些细节会随版本变化。
#
# - **vLLM 0.33.0** 的等待队列有 `fcfs` 和 `priority` 两种次序，后者就是我们的 `PriorityOrder`：优先级（那里是数值**小**的在前）、
#   到达时间、id。它没有老化：实际驱动时，优先级 0 的请求源源不断，优先级 5 的那个就一直没有运行。
#   （`vllm/v1/core/sched/`，读过源码，也实际驱动运行过。）
# - **SGLang，commit `00550cd`**，一个文件里就有两种办法。`hrrn` 按“等待与工作量之比”老化，而等待不用秒算，
#   用这段时间里 prefill 过的 **token 数**来算；`shortest-prefill-first`（标明是实验性的）是按提示词未命中部分排的 `SJF`，没有老化。
#   `lof` 和我们相反：输出长的在前。优先级是大的急还是小的急，可以设置。
#   （[schedule_policy.py](https://github.com/sgl-project/sglang/blob/00550cd11b35def9d584bf761a1e32729c20a21d/python/sglang/srt/managers/schedule_policy.py)）
# - **Triton Inference Server** 的 dynamic batcher 里有最后几个 TODO 做的东西：可以互相超越的优先级，
#   每一级各自的队列上限，以及超时之后拒绝或延后。
#   （[batcher.md](https://github.com/triton-inference-server/server/blob/06151b8b074e6e22b582587eef944954c58bcbfa/docs/user_guide/batcher.md)）
# - **FastServe**（Wu 等，NSDI '26）是分级的轮转：每出一个 token 都可以抢占；请求一来，就按提示词的长度进到合适的一级，
#   因为提示词多长是知道的，回答多长不知道。作者不得不提前把 KV cache 在 GPU 和主机之间搬来搬去：这正是实验 5 里换人的代价。
#   （[论文](https://www.usenix.org/conference/nsdi26/presentation/wu-bingyang)）
# - **VTC**（Sheng 等，OSDI '24）给实验 4 的问题定了一种货币：一个**客户**得到了多少，按处理掉的输入和输出 token 来算；
#   两个都有请求在等的客户，得到的服务相差有上限。
#   （[arXiv 2401.00588](https://arxiv.org/abs/2401.00588)）

# %% [markdown] lang="en"
# ## Summary
#
# - A policy is an object with `key(request, now)`; queues and schedulers ask it and know nothing else of it.
# - Order changes who waits, not how much work there is. Shortest-first has the smallest mean, and no bound.
# - A bound is a number that you can state: `(k + 1) × burst` requests with a guard, `(size − s) / rate`
#   seconds with aging.
# - "Short" means short in *seconds*; on this machine that is the output, not the prompt.
# - "Fair" needs a currency, and a maximum beside it.
# - In overload, send away early those who would be served too late.

# %% [markdown] lang="zh"
# ## 小结
#
# - 策略是带 `key(request, now)` 的对象；队列和调度器只管问它，别的一概不知。
# - 次序改变的是谁等，不是活有多少。短的优先平均等待最短，但没有上限。
# - 上限要说得出数来：有保险的是 `(k + 1) × burst` 个请求，有老化的是 `(大小 − s) / rate` 秒。
# - “短”指的是**秒数**短；在这台机器上，看的是输出，不是提示词。
# - “公平”要说清拿什么算，旁边还要放上最大值。
# - 过载的时候，反正会服务得太迟的，趁早送走。

# %% [markdown] lang="en"
# ## Exercises
#
# 1. **A heap for aging.** Write `AgingHeap`, with `size + rate × arrival` as a static key. Does it give the
#    same order as `Aging` on 400 requests? Where do floating-point numbers get in the way?
# 2. **Ratio.** Write `HRRN`, whose key is `-(waited + seconds) / seconds`. Find two requests that change
#    places while both wait. Why does a heap fail here?
# 3. **Not knowing.** Give `SJF` a guess: the true seconds times a random factor between 1/4 and 4. How much
#    of its gain over first-come is left? At which error is it gone?
# 4. **Newcomers first.** Change `RoundRobin` so that those who come during a slice stand before the one who
#    has just had it. What does it do to TTFT, and what to the bound?
# 5. **Patience.** Let timeouts differ: urgent requests give up after 2 s, others after 20 s. Which policy has
#    the most content users?
#
# To discuss: a service bills by the token. Is shortest-first fair to those who pay most?

# %% [markdown] lang="zh"
# ## 练习
#
# 1. **老化也能用堆。** 写一个 `AgingHeap`，用静态的键 `大小 + rate × 到达`。400 个请求，次序和 `Aging` 一样吗？
#    浮点数会在哪里捣乱？
# 2. **按比值。** 写一个 `HRRN`，键是 `-(已等 + 秒数) / 秒数`。找出两个请求，在都还等着的时候互换了先后。
#    为什么这里不能用堆？
# 3. **不知道有多长。** 给 `SJF` 的是猜测：真实秒数乘上 1/4 到 4 之间的随机数。比起先来先服务，它的好处还剩多少？
#    误差多大时，好处就没了？
# 4. **新来的在前。** 改一改 `RoundRobin`：时间片里新来的人，站到刚用完时间片的那个前面。TTFT 怎么变？上限怎么变？
# 5. **耐心不一。** 紧急的 2 秒就放弃，其余的等 20 秒。哪种策略让最多的人满意？
#
# 讨论：一个服务按 token 收费。短的优先，对花钱最多的人公平吗？

# %% [markdown] lang="en"
# ## What next
#
# One request at a time wastes most of the machine: a decode step reads all weights for a single token.
# Chapter 4 lets many requests share each step. The question "who goes next" stays, and your policies answer
# it there unchanged.

# %% [markdown] lang="zh"
# ## 接下来
#
# 一次只服务一个请求，机器大半是浪费的：decode 一步要读全部权重，却只出一个 token。第 4 章让许多请求共用每一步。
# “下一个是谁”这个问题还在，到那里回答它的，还是你这几个策略，一个字都不用改。
