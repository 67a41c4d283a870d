"""The page of `dpubench report`: whole, alone, every number with its letter, and saying what the functions say."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from dpu.bench.report.gather import gather
from dpu.bench.report.marks import LETTERS, percent, times
from dpu.bench.report.page import html, write
from dpu.evidence import Provenance
from dpu.simulator.economics.inputs import folder
from dpu.simulator.economics.sampling import monte_carlo

from tests.bench.report_findings import COMMAND, Taken, figures, findings, page, request

SECTIONS = ["cases", "evidence", "roofs", "cost", "frontier", "doubt", "break-even", "service", "tape-out", "missing"]


def words(text: str) -> str:
    """A page without tags, scripts and style."""
    bare = re.sub(r"<(script|style).*?</\1>", " ", text, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", "", bare).replace("&nbsp;", " ").split())


def test_it_is_whole() -> None:
    taken = Taken(page())
    assert taken.wrong == [] and taken.open == []
    assert sorted(taken.ids) == sorted(set(taken.ids))
    assert [i for i in taken.ids if i in SECTIONS] == SECTIONS
    assert {link.removeprefix("#") for link in taken.links} <= set(taken.ids)


def test_it_needs_nothing_else() -> None:
    text = page()
    assert len(text.encode()) < 8_000_000
    assert text.count('id="plotly"') == 1 and len(re.search(r'id="plotly">([^<]*)<', text)[1]) > 1_000_000  # type: ignore[index]
    own = re.sub(r'<script type="text/plain" id="plotly">[^<]*</script>', "", text)
    assert not re.search(r"<link|@import|url\(|https?:|<iframe|src=", own.replace(").src = ", ""))


def test_the_same_findings_give_the_same_bytes(tmp_path: Path) -> None:
    write(findings(), tmp_path / "a" / "report.html", COMMAND)
    assert (tmp_path / "a" / "report.html").read_text() == page()
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["report.html"]


def test_the_verdict_and_the_bad_news_come_first() -> None:
    f, said = findings(), words(page())
    heads = (f"{f.decision.verdict}: do not", "The bad news", "What speaks for it", "Every DPU,")
    order = [said.index(x) for x in heads]
    assert order == sorted(order)
    assert f'<p class="word">{f.decision.verdict}: ' in page()


def test_it_says_what_the_functions_say() -> None:
    f, said = findings(), words(page())
    assert f.detail.arch == "dpu_asic" and f.detail is max(f.cases("dpu_asic"), key=lambda c: c.advantage or 0)
    c, a = f.comparison, LETTERS[f.comparison.dpu.image.provenance]
    assert f"The advantage, their cost over its own, is {times(f.detail.advantage or 0)} {a}; the goal is 2x" in said
    for (arch, place), d in f.draws.items():
        case = next(x for x in f.decision.cases if (x.arch, x.scenario) == (arch, place))
        assert case.comparison is not None
        likely = monte_carlo(case.comparison, f.request.samples, f.request.seed).advantages[-1].probability
        assert d.probability == likely
        row = next(r for r in re.findall(r"<tr.*?</tr>", page()) if f">{arch}<" in r and f">{place}<" in r)
        cells = [words(x) for x in re.findall(r"<td.*?</td>", row)]
        assert cells[5] == f"{times(case.advantage or 0)} {a}"
        assert [x.replace("&lt;", "<") for x in cells[7:]] == [f"{percent(p)} {a}" for p in likely.values()]
    assert f"costs ${c.dpu.platform.details['cost_of_card'].value:.0f} A to make" in said


def test_the_service_is_bad_news_only_where_the_chip_is_dearer() -> None:
    f = findings()
    (served,) = f.service
    costs = {r.platform: r.usd_per_1000_images or 0 for r in served.queue.rows}
    mine, theirs = costs["dpu_asic"], min(v for k, v in costs.items() if k != "dpu_asic")
    factor = 2 * theirs / mine
    dear = [
        r.model_copy(update={"usd_per_1000_images": r.usd_per_1000_images * factor}) if r.platform == "dpu_asic" else r
        for r in served.queue.rows
    ]
    other = replace(f, service=(replace(served, queue=served.queue.model_copy(update={"rows": tuple(dear)})),))
    for found, cost in ((f, mine), (other, 2 * theirs)):
        text = words(html(found, COMMAND))
        bad, good = text.index("The bad news"), text.index("What speaks for it")
        at = text.index("In a service (steady requests")
        assert (bad < at < good) == (cost > theirs) and (at > good) == (cost < theirs)


def test_every_amount_has_its_letter() -> None:
    """No block of text has dollars, seconds, watts or shares without a letter; settings of the run are no evidence."""
    bare = []
    for text, letters in Taken(page()).blocks:
        found = re.findall(r"\$[\d.,]+|\b[\d.,]+ (?:s|J|W|nm|mm2|dB|TMAC/s|image/s|months)\b|\b[\d.]+x\b", text)
        found = [x for x in found if x not in ("2x", "1x", "5x")]  # the goal and thresholds: rules of the gate
        if found and not letters:
            bare.append((text, found))
    assert bare == []


def test_letters_are_explained_and_have_their_sources() -> None:
    legend = re.search(r'<ul class="legend">.*?</ul>', page())
    assert legend and re.findall(r">([A-Z])</abbr> <b>(\w+)</b>", legend[0]) == [
        (LETTERS[p], p.label) for p in sorted(Provenance, key=int, reverse=True)
    ]
    for label, said, letter in re.findall(r'<abbr class="mark (\w+)" title="([^"]*)">(\w)</abbr>', page()):
        assert letter == LETTERS[Provenance[label.upper()]]
        assert said.split(":")[0] == label
    assert 'title="published: CSET, AI Chips (2020)' in page()  # the wafer's price, of silicon.json


def test_bytes_are_counted_not_measured() -> None:
    """No counter of a DRAM was read, on the GPU either: the x of a roofline is never `measured`."""
    found = re.findall(r"MAC/byte&nbsp;<abbr[^>]*>(.)</abbr>", page())
    assert len(found) > 4 and set(found) == {"S"}


def test_every_place_has_a_figure_and_every_figure_something_to_show() -> None:
    found = figures(page())
    assert [i.removeprefix("figure-") for i in Taken(page()).ids if i.startswith("figure-")] == list(found)
    assert {"gpu-roof", "dpu-roof", "cost", "frontier", "histogram", "tornado"} <= set(found)
    assert {"break-even-volume", "break-even-price", "service", "die", "schedule", "cash"} <= set(found)
    for name, f in found.items():
        numbers = [v for t in f["data"] for k in ("x", "y", "z") for v in _flat(t.get(k, []))]
        assert len([v for v in numbers if isinstance(v, (int, float))]) >= 3, name
        for t in f["data"]:
            assert all(any(v is not None for v in _flat(t[k])) for k in ("x", "y", "z") if k in t), name
        titles = {f["layout"][k]["title"]["text"] for k in ("xaxis", "yaxis")}
        assert titles != {""}, name
        for i in f.get("narrow", {}).get("data", {}):
            assert 0 <= int(i) < len(f["data"]), name


def _flat(value: object) -> list[object]:
    return [x for v in value for x in _flat(v)] if isinstance(value, list) else [value]


def test_colours_are_told_apart_by_more_than_colour() -> None:
    """Traces of one figure that have a name differ in marker, dash or pattern."""
    for name, f in figures(page()).items():
        looks = [
            (
                t["type"],
                t.get("marker", {}).get("symbol"),
                t.get("marker", {}).get("pattern", {}).get("shape"),
                t.get("line", {}).get("dash"),
            )
            for t in f["data"]
            if t.get("name") and t.get("showlegend", True)
        ]
        assert len(looks) == len(set(looks)), (name, looks)


def test_nothing_is_drawn_that_is_not_there(tmp_path: Path) -> None:
    """Without results: sentences that name what is missing and the command, and no empty figure."""
    text = html(gather(request(results=tmp_path, archs=("dpu_asic",), economics=("scenario_b",))), COMMAND)
    found = figures(text)
    assert "gpu-roof" not in found and "dpu-roof" not in found and "cost" in found
    said = words(text)
    for what, command in (
        ("measurements of a GPU (h200.json)", "dpubench gpu -o out/gpu"),
        ("the timing simulation of full-size programs", f"dpubench tables PROGRAM... -o {tmp_path}/sim/tables.json"),
        ("variants of dpu_asic: a sweep of its size", "dpubench size-chip --arch dpu_asic --economics scenario_b"),
        ("the quality axis", "none yet: trained SDXL weights"),
    ):
        assert f"Missing: {what}." in said and command in said
    rows = words(text[text.index('<section id="missing"') :])
    assert all(x in rows for x in ("measurements of a GPU", "variants of dpu_asic", "measured FPGA", "quality"))
    assert "not simulated" in said


def test_a_card_alone_has_no_tape_out() -> None:
    f = gather(request(archs=("dpu_f2",), economics=("scenario_a",)))
    text = html(f, COMMAND)
    assert "Missing: a chip among the DPUs." in words(text)
    found = figures(text)
    assert "schedule" not in found and "break-even-volume" not in found and "break-even-price" in found
    assert [t["name"] for t in found["histogram"]["data"]] == ["advantage"]
    assert "size-chip" not in text


def test_text_of_files_is_no_html(tmp_path: Path) -> None:
    content = json.loads((folder() / "economics" / "scenario_b.json").read_text()) | {"title": "<b>x</b> & y"}
    (tmp_path / "mine.json").write_text(json.dumps(content))
    f = gather(request(archs=("dpu_asic",), economics=(str(tmp_path / "mine.json"),), traffics=()))
    text = html(f, COMMAND)
    assert "&lt;b&gt;x&lt;/b&gt; &amp; y" in text
    assert "<b>x</b>" not in re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert Taken(text).wrong == []
    assert "No traffic was asked for." in text


def test_a_go_is_no_warning() -> None:
    """The sentence above the tape-out follows the gate."""
    f = findings()
    met = tuple(replace(x, status="met", decisive=False) for x in f.detail.conditions)
    case = replace(f.detail, conditions=met, advantage=3.0, flips=())
    text = html(replace(f, decision=replace(f.decision, cases=(case,)), detail=case, missing=()), COMMAND)
    assert "GO: every condition is met" in text and "not a proposal" not in text
    assert "The goal of 2x is missed" not in text and "No evidence is missing." in text
    assert "not a proposal" in page()


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_is_filled(section: str) -> None:
    found = re.search(rf'<section id="{section}"[^>]*>(.*?)</section>', page(), re.DOTALL)
    assert found and len(words(found[1])) > 200
