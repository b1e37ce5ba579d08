"""Whether a trial ran under the condition that was asked: from evidence only, and from enough of it.

A trial that became ready needs the whole proof; one that failed before is judged by what it reached: this binary,
these arguments, the asked backend's library or device in its own lines or maps, and nothing against it. A line that
the runtime hides is `unknown`, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from stillruns.judge.trials import device_proof, load_proof, settings_proof
from stillruns.judge.trials.view import TrialView, unknown
from stillruns.model.absence import Absence
from stillruns.model.applied import Applied
from stillruns.model.condition import Condition
from stillruns.model.engine import Engine
from stillruns.model.placement import Placement
from stillruns.model.server_facts import ServerFacts
from stillruns.model.trial import TrialRecord


def judge(
    condition: Condition,
    engine: Engine | None,
    facts: ServerFacts | Absence,
    record: TrialRecord,
    evaluated: Sequence[int] = (),
) -> tuple[Applied, Placement | None]:
    """The factors of the condition one by one, and the placement that the log shows.

    `engine` is the probed binary (None for an attached server); `facts` the server's log, read, or why there is none;
    `evaluated` what the answers say of their prompts (`TrialView`).
    """
    known = facts if isinstance(facts, ServerFacts) else None
    view = TrialView(condition, known, None if isinstance(facts, ServerFacts) else facts, record, tuple(evaluated))
    if view.attached and known is None:
        why = "an attached server without a log shows nothing about itself: give its log in the spec (log = FILE)"
        return Applied.of({"backend": unknown(condition.backend.value, why)}), None
    factors, placement = device_proof.prove(view)
    factors.update(settings_proof.prove(view, engine))
    factors.update(load_proof.prove(view))
    return Applied.of(factors), placement
