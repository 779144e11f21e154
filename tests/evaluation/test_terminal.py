"""Progress lines and the suite table, off and on a terminal."""

import dataclasses
import io

import pytest

from coda_jax.evaluation import terminal
from coda_jax.evaluation.metrics import Coverage, Moment, Summary, Tally, Targeting, Verification
from coda_jax.evaluation.mode_history import ControlOutcome, ModeHistory, Value
from coda_jax.learning.scale_doctor import Measured, examine


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Tty(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0s"), (59.7, "1m00s"), (125, "2m05s"), (3725, "1h02m")])
def test_duration(seconds, text):
    assert terminal.duration(seconds) == text


def test_plain_progress_is_rare_and_complete():
    clock, out = Clock(), io.StringIO()
    with terminal.Progress("demonstrations", 100, "demos", stream=out, interval_s=3, clock=clock) as progress:
        for _ in range(100):
            clock.now += 0.125
            progress.advance(success=0.5)
    lines = out.getvalue().splitlines()
    assert lines[0] == "demonstrations: 24/100 demos (24%), 8 demos/s, 10s left, success 0.5"
    assert len(lines) == 5
    assert lines[-1] == "demonstrations: 100/100 demos (100%), 8 demos/s, success 0.5, 12s in all"


def test_the_last_unit_is_not_said_twice_and_nothing_is_not_said():
    clock, out = Clock(), io.StringIO()
    with terminal.Progress("warm-up", 2, "parts", stream=out, clock=clock) as progress:
        for _ in range(2):
            clock.now += 10
            progress.advance()
    with terminal.Progress("certify", 0, "demos", stream=out, clock=clock):
        clock.now += 10
    assert out.getvalue().splitlines() == [
        "warm-up: 1/2 parts (50%), 6 parts/min, 10s left",
        "warm-up: 2/2 parts (100%), 6 parts/min, 20s in all",
    ]


def test_uneven_parts_promise_no_time():
    clock, out = Clock(), io.StringIO()
    with terminal.Progress("warm-up", 4, "parts", even=False, stream=out, clock=clock) as progress:
        clock.now += 10
        progress.update(3, part="rollouts")
        clock.now += 300
        progress.update(4)
    assert out.getvalue().splitlines() == [
        "warm-up: 3/4 parts (75%), part rollouts",
        "warm-up: 4/4 parts (100%), part rollouts, 5m10s in all",
    ]


def test_a_line_amid_a_progress_takes_the_place_of_its_line():
    tty, plain = Tty(), io.StringIO()
    for out in (tty, plain):
        with terminal.Progress("warm-up", 4, "parts", even=False, stream=out, clock=Clock()):
            terminal.interject("compiling", out)
    assert "\r\x1b[Kcompiling\n" in tty.getvalue() and plain.getvalue().startswith("compiling\n")


def test_what_an_earlier_process_finished_does_not_count_for_the_rate():
    clock = Clock()
    with terminal.Progress("rollouts", 100, "rollouts", stream=io.StringIO(), clock=clock) as progress:
        clock.now += 10
        progress.update(20)
        progress.skip(60)
        assert progress.line() == "rollouts: 60/100 rollouts (60%), 2 rollouts/s, 20s left"
        progress.skip(60)  # none more: the work of this process stays in the rate
        assert progress.line() == "rollouts: 60/100 rollouts (60%), 2 rollouts/s, 20s left"


def test_live_progress_redraws_one_line():
    clock, out = Clock(), Tty()
    with terminal.Progress("train", None, "steps", stream=out, clock=clock) as progress:
        clock.now += 2
        progress.update(10)
    assert out.getvalue() == "\r\x1b[Ktrain: 10 steps, 5 steps/s\r\x1b[Ktrain: 10 steps, 5 steps/s, 2s in all\n"


def test_a_stopped_stage_says_so():
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt), terminal.Progress("train", 9, stream=out):
        raise KeyboardInterrupt
    assert out.getvalue().rstrip().endswith("[stopped]")


def test_slow_rates_are_per_minute():
    assert terminal.rate_text(0.2, "demos") == "12 demos/min"
    assert terminal.rate_text(1234.5, "steps") == "1234 steps/s"


def test_table_plain_and_boxed():
    suites: dict[str, dict[str, dict[Moment, Tally]]] = {
        "pick_place": {"id": {"before": Tally(0, 10), "after": Tally(8, 10)}, "[red]x": {"after": Tally(0, 0)}}
    }
    plain = io.StringIO()
    terminal.print_suites(suites, stream=plain)
    lines = plain.getvalue().splitlines()
    assert lines[3].split() == ["pick_place", "id", "after", "8/10", "80", "%", "49", "..", "94", "%"]
    assert len(lines) == 5
    boxed = Tty()
    terminal.print_suites(suites, stream=boxed)
    assert "8/10" in boxed.getvalue() and "[red]x" in boxed.getvalue()


def mode(cause, tests=(), values=()):
    return ModeHistory("a" * 16, "SPATIAL", "transport", cause, {1: 2}, (), tests, values)


def test_modes_that_were_tested_are_printed_with_words_and_values():
    test = ControlOutcome(1, "confirmed", 0.3, 0.1, 0.5, 16)
    values = tuple(
        Value(at, gain, gain, (-0.5, 0.6) if at == 1 else None, Tally(1, 4), Tally(2, 4), 1) for at, gain in ((1, 0.49), (2, -0.2))
    )
    out = io.StringIO()
    terminal.print_modes([mode("target_reference_m:high", (test,), values), mode("\x1b[2Jcrowd\n", (test,)), mode("untested")], stream=out)
    lines = out.getvalue().splitlines()
    assert len(lines) == 4 and "of 3 known" in lines[0]
    assert lines[2].split("  ")[-1].strip() == "+49 (-50..+60), -20" and "larger horizontal distance" in lines[2]
    assert "confirmed" in lines[3] and lines[3].endswith("-") and "\x1b" not in lines[3]


def test_a_scale_warning_is_one_line():
    (warning,) = examine(Measured(ess=0.998))
    assert terminal.warning_line("round 2, policy", warning) == (
        "round 2, policy: scale warning: ESS is 0.998 of n: AWR is plain cloning (above 0.95); "
        "config.awr.temperature: lower it, or set awr.advantage_unit to std"
    )


def test_without_tested_modes_nothing_is_printed():
    out = io.StringIO()
    terminal.print_modes([mode("untested")], stream=out)
    assert out.getvalue() == ""


def test_the_scenes_of_the_rounds():
    summary = Summary(0, 1.0, 1, {}, [0], 1, {}, rounds=2)
    summary = dataclasses.replace(
        summary,
        targeting=[Targeting(8, 8, 0.625), Targeting(0, 0, None)],
        coverage=[Coverage(8, 1.75), Coverage(0, None)],
        run_coverage=Coverage(8, 1.75),
        verification=[Verification(10, 7, 9, True), Verification(0, 0, 0, True)],
    )
    out = io.StringIO()
    terminal.print_rounds(summary, stream=out)
    title, _, first, second = out.getvalue().splitlines()
    assert title == "Scenes of the rounds; coverage of all rounds 1.75 bits"
    assert first.split("  ")[0] == "1" and first.split() == ["1", "62", "%", "1.75", "7/10", "70", "%", "9/10", "90", "%"]
    assert second.split() == ["2", "-", "-", "-", "-"]
    nothing = io.StringIO()
    terminal.print_rounds(Summary(0, 1.0, 1, {}, [0], 1, {}), stream=nothing)
    assert nothing.getvalue() == ""
