"""Whether a server bore the load that was asked: so often, so long, so many at once, prompts so long.

What was sent is on record; that the server took it so is in its own lines: its number of sequences, and the tokens of
each prompt that it evaluated. These last are in its answers too, which count where its log ends early: llama.cpp
writes its log in a thread of its own, which on a busy machine is not always through when the process ends (b10068: 1
of 401 trials that ended in order). A trial that ended by a failure bore what it bore: that is its result.
"""

from __future__ import annotations

from collections import Counter

from stillruns.judge.answers import heard
from stillruns.judge.trials.view import TrialView, no, unknown, yes
from stillruns.model.applied import FactorApplied


def prove(view: TrialView) -> dict[str, FactorApplied]:
    """`epochs`, `duration`, `concurrency` and `prompt_tokens`, those that the condition asks for."""
    condition, factors = view.condition, dict[str, FactorApplied]()
    if condition.forced or condition.forced_texts:
        return factors  # a check asks its own questions
    if condition.concurrency > 1:
        factors["concurrency"] = _concurrency(view)
    if condition.prompt_tokens:
        factors["prompt_tokens"] = _prompt_tokens(view)
    if condition.duration:
        factors["duration"] = _duration(view)
    elif condition.epochs > 1:
        factors["epochs"] = _epochs(view)
    return factors


def _failed(view: TrialView) -> bool:
    """Whether the trial ended before all was asked, for a reason of the server's."""
    last = view.record.exchange
    return last is None or bool(last.error or last.timed_out) or last.status != 200


def _concurrency(view: TrialView) -> FactorApplied:
    asked = view.condition.concurrency
    printed = None if view.facts is None else view.facts.settings.get("n_seq_max")
    if printed is None:
        if view.ready or view.attached:
            return unknown(asked, f"nothing shows the number of slots: {_silence(view)}")
        return yes(asked, None, "")
    text, ref = printed
    if text != str(asked):
        return no(asked, text, f"other number of slots: {text}, {asked} were asked", ref)
    together = heard.at_once(view.record.exchanges)
    if together < asked and not _failed(view):
        return no(
            asked, together, f"not at once: {together} requests of {asked} were under way together at most", ref
        )
    return yes(asked, text, f"{together} requests at once on {text} slots", ref)


def _silence(view: TrialView) -> str:
    return view.why_no_log if view.facts is None else "it is not printed"


def _prompt_tokens(view: TrialView) -> FactorApplied:
    asked = view.condition.prompt_tokens
    timings = [] if view.facts is None else [t for t in view.facts.timings if t.prompt_tokens is not None]
    seen = Counter(t.prompt_tokens for t in timings)
    wrong = [t for t in timings if t.prompt_tokens != asked]
    if wrong:
        got = wrong[0].prompt_tokens
        return no(asked, got, f"other prompt: {got} tokens were evaluated, {asked} were asked", wrong[0].ref)
    if seen:
        return yes(asked, asked, "", timings[0].ref)
    other = next((n for n in view.evaluated if n != asked), None)
    if other is not None:
        return no(asked, other, f"other prompt: {other} tokens were evaluated as an answer says, {asked} were asked")
    if view.evaluated:
        return yes(asked, asked, "")
    if _failed(view):
        return yes(asked, None, "")
    return unknown(asked, f"nothing shows how many tokens of the prompt were evaluated: {_silence(view)}")


def _duration(view: TrialView) -> FactorApplied:
    asked, got = view.condition.duration, heard.seconds(view.record)
    shown = f"{got:.1f}"
    if got >= asked or _failed(view):
        return yes(f"{asked:g}", shown, "")
    return no(f"{asked:g}", shown, f"shorter: it was asked for {shown} s, {asked:g} were to be")


def _epochs(view: TrialView) -> FactorApplied:
    asked = view.condition.epochs * view.condition.concurrency
    got = len(view.record.exchanges) + view.record.unkept
    if got == asked or _failed(view):
        return yes(asked, got, "")
    return no(asked, got, f"fewer requests: {got} were made, {asked} were to be")
