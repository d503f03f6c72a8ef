"""`fork`: create and drop second systems made from snapshots."""

from __future__ import annotations

from snapkafka import ops
from snapkafka.cli.build import AsJson
from snapkafka.cli.present.answers import moment
from snapkafka.cli.present.plans import print_plan, print_recovered
from snapkafka.cli.present.printed import count
from snapkafka.cli.propose import Proposal, propose
from snapkafka.cli.running import connect, console, run, who
from snapkafka.errors import BadInputError
from snapkafka.verbs import Change, ForkCreate, ForkDrop, Where

from .restore import notifier


def create(at: Where, asked: ForkCreate, how: Change, as_json: AsJson = False) -> None:
    async def request() -> ops.RecoveryRequest:
        return ops.RecoveryRequest(
            namespace=at.namespace,
            name=asked.name,
            storage=asked.storage,
            force=asked.force,
            suppress=ops.read_suppression(asked.suppress) if asked.suppress else None,
            allow_unmatched=asked.allow_unmatched,
            masks=ops.read_masks(asked.mask) if asked.mask else (),
            fork=asked.fork,
            with_inputs=asked.with_inputs,
            expires_s=None if asked.expires_ms is None else asked.expires_ms / 1_000,
        )

    wanted, notify = run(request, as_json=as_json), notifier("fork", as_json=as_json)
    propose(
        Proposal(
            plan=lambda: ops.plan_recovery(connect(at.bootstrap), wanted),
            act=lambda plan: ops.recover(connect(at.bootstrap), plan, who=who(), notify=notify),
            show=print_plan,
            report=lambda plan, done: _print_created(done),
            question=lambda plan: f"create fork {plan.request.fork}?",
            refused=lambda plan: plan.refused,
        ),
        how,
        as_json=as_json,
    )


def _print_created(done: ops.Recovered) -> None:
    print_recovered(done)
    if done.expires_ms:
        console.print(f"expires {moment(done.expires_ms)}: `snapkafka fork drop --expired` removes it then")
    console.print(f"start its workers: SNAPKAFKA_FORK={done.plan.request.fork} faust -A ... worker")


def drop(at: Where, asked: ForkDrop, how: Change, as_json: AsJson = False) -> None:
    async def plan() -> tuple[ops.Dropping, ...]:
        if bool(asked.name) == asked.expired:
            raise BadInputError("name a fork, or add --expired", hint="see `snapkafka fork list`")
        return await ops.plan_drop(connect(at.bootstrap), at.namespace, asked.name, expired=asked.expired)

    propose(
        Proposal(
            plan=plan,
            act=lambda plan: ops.drop_forks(
                connect(at.bootstrap), plan, notify=notifier("fork", as_json=as_json)
            ),
            show=_print_dropping,
            report=lambda plan, done: _print_dropped(done),
            question=lambda plan: f"remove {', '.join(it.fork for it in plan if not it.kept)}?",
            refused=lambda plan: bool(plan) and all(it.kept for it in plan),
            empty=lambda plan: not plan,
            change="removed",
        ),
        how,
        as_json=as_json,
    )


def _print_dropping(planned: tuple[ops.Dropping, ...]) -> None:
    if not planned:
        console.print("No fork has expired.")
    for it in planned:
        if it.kept:
            console.print(("refused", "red"), f": fork {it.fork} stays: {it.kept}")
            console.print("        stop its workers and run this again")
            continue
        console.print(
            "removes fork ", (it.fork, "bold"), f" ({it.namespace}): {count(len(it.topics), 'topic')}"
        )
        for name, _ in it.topics:
            console.print(f"  {name}")


def _print_dropped(found: tuple[ops.Dropping, ...]) -> None:
    for it in found:
        if it.kept:
            console.print("fork ", (it.fork, "bold"), f" stays: {it.kept}")
        else:
            console.print("removed fork ", (it.fork, "bold"), f": {count(len(it.topics), 'topic')}")
