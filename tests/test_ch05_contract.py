"""Chapter 5's contract on the reference, by a model that knows sets only, and over random histories."""

from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from decodelab.course import load

IDS = st.sampled_from([0, 1, 2, "a", "b"])


def exported():
    """The names that chapter 5 exports, by the reference."""
    chapter = load("ch05")
    names: dict = {}
    for code in chapter.exports:
        exec(chapter.answer(code[1:]).reference if code.startswith("@") else code, names)
    return SimpleNamespace(**names)


LAB = exported()


class Plain(RuleBasedStateMachine):
    """Any history of a block manager: a block has one place, a call that fails changes nothing."""

    make = LAB.BlockManager

    @initialize(num_blocks=st.integers(1, 9), block_size=st.integers(1, 5))
    def begin(self, num_blocks, block_size):
        self.kv = self.make(num_blocks, block_size)
        self.stored = {}

    def state(self):
        return {i: list(t) for i, t in self.kv.tables.items()}, self.kv.num_free

    def room(self, request_id):
        return len(self.kv.tables.get(request_id, ())) * self.kv.block_size

    @rule(request_id=IDS, num_tokens=st.integers(0, 50))
    def allocates(self, request_id, num_tokens):
        before, free = self.state()
        need, had = self.kv.missing(request_id, num_tokens), before.get(request_id, [])
        assert self.state() == (before, free)
        assert need == min(n for n in range(60) if (len(had) + n) * self.kv.block_size >= num_tokens)
        got = self.kv.allocate(request_id, num_tokens)
        assert got is (need <= free)
        if got:
            table = self.kv.tables[request_id]
            assert table[: len(had)] == had
            assert len(table) == len(had) + need
            assert self.kv.num_free == free - need
            self.stored[request_id] = max(self.stored.get(request_id, 0), num_tokens)
        else:
            assert self.state() == (before, free)

    @rule(request_id=IDS)
    def frees(self, request_id):
        self.kv.free(request_id)
        self.stored.pop(request_id, None)
        after = self.state()
        self.kv.free(request_id)
        assert self.state() == after
        assert request_id not in self.kv.tables

    @rule(request_id=IDS, data=st.data())
    def maps(self, request_id, data):
        start = data.draw(st.integers(0, self.room(request_id)))
        count = data.draw(st.integers(0, self.room(request_id) - start))
        if request_id in self.kv.tables:
            slots = self.kv.slot_mapping(request_id, start, count)
            assert len(set(slots)) == len(slots) == count
            blocks = [slot // self.kv.block_size for slot in slots]
            whole = [b for b in self.kv.tables[request_id] for _ in range(self.kv.block_size)]
            assert blocks == whole[start : start + count]

    @invariant()
    def nothing_is_lost(self):
        if hasattr(self, "kv"):
            held = {block for table in self.kv.tables.values() for block in table}
            assert held <= set(range(self.kv.num_blocks))
            assert len(held) + self.kv.num_free == self.kv.num_blocks
            self.owners_are_right(Counter(b for table in self.kv.tables.values() for b in table))

    def owners_are_right(self, owners):
        assert set(owners.values()) <= {1}
        share = self.kv.waste(self.stored)
        held = len(owners) * self.kv.block_size
        assert 0 <= share <= 1
        assert share * held == pytest.approx(held - sum(self.stored.values()))

    def teardown(self):
        if hasattr(self, "kv"):
            for request_id in list(self.kv.tables):
                self.kv.free(request_id)
            assert self.kv.num_free == self.kv.num_blocks
            assert self.kv.allocate("all", self.kv.num_blocks * self.kv.block_size)
            assert sorted(self.kv.tables["all"]) == list(range(self.kv.num_blocks))


class Shared(Plain):
    """The same with forks and writes; beside it, what a reader of each position would find."""

    make = LAB.SharedBlockManager

    @initialize()
    def blank(self):
        self.memory, self.wrote, self.count = {}, {}, 0

    @rule(parent=IDS, child=IDS)
    def forks(self, parent, child):
        before = self.state()
        if parent in self.kv.tables and child not in self.kv.tables:
            self.kv.fork(parent, child)
            assert self.state() == (before[0] | {child: before[0][parent]}, before[1])
            self.wrote |= {(child, p): v for (i, p), v in self.wrote.items() if i == parent}
        else:
            with pytest.raises(ValueError, match="fork"):
                self.kv.fork(parent, child)
            assert self.state() == before

    @rule(request_id=IDS, data=st.data())
    @precondition(lambda self: self.kv.tables)
    def writes(self, request_id, data):
        if not self.room(request_id):
            return
        position = data.draw(st.integers(0, self.room(request_id) - 1))
        before, free = self.state()
        block = before[request_id][position // self.kv.block_size]
        shared = sum(block in table for table in before.values()) > 1
        if shared and not free:
            with pytest.raises(ValueError, match="free"):
                self.kv.write(request_id, position)
            assert self.state() == (before, free)
            return
        pair = self.kv.write(request_id, position)
        assert (pair is not None) is shared
        if pair:
            assert pair[0] == block
            for offset in range(self.kv.block_size):
                self.memory[pair[1], offset] = self.memory.get((pair[0], offset))
        slot = self.kv.slot_mapping(request_id, position, 1)[0]
        self.count += 1
        self.memory[divmod(slot, self.kv.block_size)] = self.wrote[request_id, position] = self.count

    @rule(request_id=IDS)
    def frees(self, request_id):
        super().frees(request_id)
        self.wrote = {(i, p): v for (i, p), v in self.wrote.items() if i != request_id}

    @invariant()
    def everybody_reads_what_was_written(self):
        for (request_id, position), value in getattr(self, "wrote", {}).items():
            slot = self.kv.slot_mapping(request_id, position, 1)[0]
            assert self.memory[divmod(slot, self.kv.block_size)] == value

    def owners_are_right(self, owners):
        assert {b: n - 1 for b, n in owners.items() if n > 1} == {b: n for b, n in self.kv.extra.items() if n}


TestPlain, TestShared = Plain.TestCase, Shared.TestCase
TestPlain.settings = TestShared.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(num_tokens=st.integers(0, 10**12), block_size=st.integers(1, 10**6))
def test_missing_rounds_up_at_any_size(num_tokens, block_size):
    blocks = LAB.BlockManager(1, block_size).missing("a", num_tokens)
    assert (blocks - 1) * block_size < num_tokens <= blocks * block_size or blocks == num_tokens == 0


def test_a_block_of_one_token_makes_the_table_the_slot_mapping():
    kv = LAB.BlockManager(9, 1)
    kv.allocate("a", 2), kv.allocate("b", 3), kv.allocate("a", 5)
    assert kv.slot_mapping("a", 0, 5) == kv.tables["a"]


def test_exact_multiples_take_no_block_more():
    kv = LAB.BlockManager(4, 16)
    assert [kv.allocate("a", n) and len(kv.tables["a"]) for n in (15, 16, 17, 32, 33)] == [1, 1, 2, 2, 3]


def test_the_example_that_is_worked_by_hand():
    kv = LAB.BlockManager(6, 4)
    kv.tables["a"] = [2, 0, 5]
    assert kv.slot_mapping("a", 6, 4) == [2, 3, 20, 21]


def test_four_samples_of_one_prompt_copy_three_times():
    kv = LAB.SharedBlockManager(99, 16)
    kv.allocate(0, 1000)
    for child in (1, 2, 3):
        kv.fork(0, child)
    assert kv.num_blocks - kv.num_free == 63
    assert sum(kv.write(i, 1000) is not None for i in range(4)) == 3
    assert kv.num_blocks - kv.num_free == 66
