"""The table of options: what the command prints, what docs/reference.md holds and what `enable()` takes are one."""

import inspect
import re
from pathlib import Path

import pytest
from launch import run_command

import tensorpager

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference.md"


def rows(*arguments):
    """The cells of each row that `tensorpager options` prints."""
    done = run_command("options", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ") and not line.startswith("| option")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_reference_holds_the_tables_that_the_command_writes(tmp_path):
    emptied = re.sub(r"(<!-- options: \w+ -->\n)[^<]*", r"\1", REFERENCE.read_text())
    (tmp_path / "reference.md").write_text(emptied)
    assert run_command("options", "--write", tmp_path / "reference.md").returncode == 0
    assert (tmp_path / "reference.md").read_text() == REFERENCE.read_text() != emptied


def test_enable_takes_every_option_that_the_table_gives_to_python():
    keywords = {cells[2].strip("`") for cells in rows() if cells[2] and not cells[2].endswith("(C++)")}
    assert set(inspect.signature(tensorpager.enable).parameters) == keywords
    assert [name for name in keywords if f"\n    {name}: " not in tensorpager.enable.__doc__] == []


@pytest.mark.parametrize("verb", ["run", "trace"])
def test_help_of_a_verb_shows_the_options_of_its_table(verb):
    text = run_command(verb, "--help").stdout
    for option, variable, _, _ in rows(verb):
        assert option.split("`")[-2].split()[0] in text and f"[{variable.strip('`').split('=')[0]}]" in text


def test_verb_is_for_developers_and_not_listed():
    assert "\n  options " not in run_command("--help").stdout


@pytest.mark.forked
def test_session_takes_switches_and_texts_by_keyword(spill, tmp_path):
    options = {"on_demand": True, "plan_sync": False, "link": "2GiB/s", "plan_cache": tmp_path, "quiet": True}
    with tensorpager.enable(budget="1GiB", spill=spill, **options):
        assert tensorpager.stats()["spill"].endswith(" at 2.00 GiB/s")
