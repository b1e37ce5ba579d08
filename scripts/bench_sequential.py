"""`make bench` part `sequential`: what the sequential test costs, simulated beside the exact figures.

For each pair of rates: trials of the fixed design, mean trials of the sequential test at both hypotheses (20,000
seeded courses, the exact dynamic programme, Wald's approximation), its error rates, and how often the confidence
sequence excludes the truth when it is looked at after every trial. Exit status 1 when a target is missed.
"""

from __future__ import annotations

import math
import random

from stillruns.judge.statistics import planning, sequential
from stillruns.judge.statistics.sequential import Shown
from stillruns.model.spec import Decide, StopRule

COURSES = 20_000
RULES = (Decide(0.05, 0.5), Decide(0.05, 0.2), Decide(0.01, 0.05))
SHARE_GOOD, SHARE_BAD, OFF = 0.65, 0.50, 0.02
LOOKS, LOOKED = 300, 2_000


def sequential_plans() -> bool:
    """Print the table; returns whether every target was met."""
    print("\nsequential test, 5 % errors, 20,000 seeded courses a row")
    print("rates          true   fixed   exact mean   simulated   Wald    share   errors exact / simulated")
    met = True
    for rule in RULES:
        fixed = planning.fixed_design(rule).trials
        for rate, share, wrong in (
            (rule.fail_below, SHARE_GOOD, Shown.BAD),
            (rule.fail_above, SHARE_BAD, Shown.GOOD),
        ):
            exact = planning.course(rule, rate)
            mean, errors = simulate(rule, rate, wrong)
            error = exact.bad if wrong is Shown.BAD else exact.good
            margin = 3 * math.sqrt(error * (1 - error) / COURSES)
            fine = (
                abs(mean / exact.mean - 1) <= OFF
                and exact.mean <= share * fixed
                and error <= rule.error
                and abs(errors - error) <= margin
            )
            met = met and fine
            print(
                f"{rule.fail_below:.2f} / {rule.fail_above:.2f}    {rate:.2f}   {fixed:5d}   {exact.mean:10.2f}   "
                f"{mean:9.2f}   {planning.wald_mean(rule, rate):5.1f}   {exact.mean / fixed:4.0%} (<= {share:.0%})   "
                f"{error:.4f} / {errors:.4f}   {'ok' if fine else 'MISSED'}"
            )
    return coverage() and giving_up() and met


def giving_up() -> bool:
    """What futility does to the answers, exactly and simulated: no error grows by it."""
    print(f"\nfutility, {COURSES} seeded courses a row: share undecided, mean trials, errors exact / simulated")
    print("rates          most   bound   true   undecided   trials   wrong, no bound   wrong     simulated")
    met = True
    for (low, high), most in (((0.05, 0.5), 40), ((0.05, 0.2), 100), ((0.01, 0.05), 300)):
        rule = Decide(low, high)
        for bound in (0.05, 0.2):
            stop = StopRule(decide=rule, max_trials=most, futility=bound)
            for rate, wrong in ((low, Shown.BAD), (math.sqrt(low * high), None), (high, Shown.GOOD)):
                free = planning.course(rule, rate, least=stop.min_trials, most=most)
                held = planning.course(rule, rate, least=stop.min_trials, most=most, futility=bound)
                errors = {Shown.BAD: (free.bad, held.bad), Shown.GOOD: (free.good, held.good)}
                before, after = errors[wrong] if wrong else (0.0, 0.0)
                seen = simulate_stop(stop, rate, wrong)
                margin = 3 * math.sqrt(max(after * (1 - after), 1e-9) / COURSES)
                fine = after <= before <= rule.error and abs(seen - after) <= margin
                met = met and fine
                print(
                    f"{low:.2f} / {high:.2f}    {most:4d}   {bound:5.2f}   {rate:.3f}   {held.undecided:8.2%}   "
                    f"{held.mean:6.1f}   {before:14.4f}   {after:.4f}   {seen:.4f}   {'ok' if fine else 'MISSED'}"
                )
    return met


def simulate_stop(stop: StopRule, rate: float, wrong: Shown | None) -> float:
    """The share of wrong answers under a whole stop rule; 0 where no answer is wrong."""
    if wrong is None:
        return 0.0
    stream, mistakes = random.Random(f"{stop} {rate}"), 0
    for _ in range(COURSES):
        failures = n = 0
        while True:
            shown = sequential.stands(stop, failures, n)
            if shown is not Shown.UNDECIDED or sequential.futile(stop, failures, n):
                break
            n += 1
            failures += stream.random() < rate
        mistakes += shown is wrong
    return mistakes / COURSES


def simulate(rule: Decide, rate: float, wrong: Shown) -> tuple[float, float]:
    """(mean trials, share of wrong answers) of many seeded courses."""
    stream = random.Random(f"{rule} {rate}")
    trials = mistakes = 0
    for _ in range(COURSES):
        failures = n = 0
        shown = Shown.UNDECIDED
        while shown is Shown.UNDECIDED:
            n += 1
            failures += stream.random() < rate
            shown = sequential.sequential_test(rule, failures, n)
        trials += n
        mistakes += shown is wrong
    return trials / COURSES, mistakes / COURSES


def coverage() -> bool:
    """How often the 95 % confidence sequence ever excludes the truth when looked at after each of 300 trials."""
    print(f"\nconfidence sequence at 95 %, looked at after each of {LOOKS} trials, {LOOKED} courses a row")
    print("true   ever excluded   (guaranteed: at most 5 %)")
    met = True
    known: dict[tuple[int, int], tuple[float, float]] = {}
    for rate in (0.01, 0.05, 0.2, 0.5):
        stream, excluded = random.Random(f"coverage {rate}"), 0
        for _ in range(LOOKED):
            failures = 0
            for n in range(1, LOOKS + 1):
                failures += stream.random() < rate
                if (failures, n) not in known:
                    interval = sequential.confidence_sequence(failures, n)
                    assert interval is not None
                    known[(failures, n)] = (interval.low, interval.high)
                low, high = known[(failures, n)]
                if not low <= rate <= high:
                    excluded += 1
                    break
        share = excluded / LOOKED
        fine = share <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / LOOKED)
        met = met and fine
        print(f"{rate:.2f}   {share:6.2%}   {'ok' if fine else 'MISSED'}")
    return met
