"""The page of `dpubench report` in headless Chromium, offline: drawn, nothing cut, on screen, phone and paper."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.bench.report_findings import figures, page

CHROMIUM = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")

PROBE = """<!doctype html><body style="margin:0"><iframe src="page.html" width="%d" height="16000"
style="border:0"></iframe><script>
const frame = document.querySelector('iframe');
const wait = setInterval(() => {
  const d = frame.contentDocument;
  if (!d || !d.body || !d.body.dataset.ready) return;
  clearInterval(wait);
  const found = { ready: d.body.dataset.ready, trouble: d.getElementById('trouble').textContent,
    width: d.documentElement.scrollWidth, figures: {} };
  for (const f of d.querySelectorAll('figure')) {
    const box = f.querySelector('.live').getBoundingClientRect(), texts = [...f.querySelectorAll('.live svg text')];
    const cut = texts.filter(t => t.textContent.trim() && t.getClientRects().length).filter(t => {
      const b = t.getBoundingClientRect();
      return b.left < box.left - 2 || b.right > box.right + 2 || b.top < box.top - 2 || b.bottom > box.bottom + 2;
    }).map(t => t.textContent);
    const ticks = [...f.querySelectorAll('.live .xtick text')].map(t => t.getBoundingClientRect());
    ticks.sort((a, b) => a.left - b.left);
    const over = ticks.filter((b, i) => i && b.left < ticks[i - 1].right - 1 && b.top < ticks[i - 1].bottom).length;
    const marks = f.querySelectorAll('.live .trace, .live .contour, .live image, .live .point').length;
    found.figures[f.id] = { cut, over, marks, texts: texts.length,
      still: f.querySelector('img.still').src.slice(0, 18), drawn: f.classList.contains('drawn') };
  }
  const out = document.createElement('pre');
  out.id = 'found'; out.textContent = JSON.stringify(found); document.body.append(out);
}, 50);
</script></body>"""


def chromium(folder: Path, *arguments: str) -> str:
    command = [str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=120000",
        "--allow-file-access-from-files",
    ]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND"]  # no network
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report")
    (made / "page.html").write_text(page())
    return made


@pytest.mark.parametrize("width", [1280, 740, 400])  # 740: figures as wide as on paper
def test_every_figure_is_drawn_and_nothing_is_cut(folder: Path, width: int) -> None:
    probe = folder / f"probe{width}.html"
    probe.write_text(PROBE % width)
    dom = chromium(folder, "--window-size=1400,16000", "--dump-dom", f"file://{probe}")
    said = re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)
    assert said is not None, "the page never became ready"
    found: dict[str, Any] = json.loads(said[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert (found["ready"], found["trouble"]) == ("yes", "")
    assert found["width"] <= width  # tables scroll by themselves, the page does not
    assert [i.removeprefix("figure-") for i in found["figures"]] == list(figures(page()))
    for name, f in found["figures"].items():
        assert f["marks"] and f["texts"] > 3, name
        assert (f["cut"], f["over"]) == ([], 0), name
        assert f["drawn"] and f["still"] == "data:image/svg+xml", name


def test_it_prints(folder: Path) -> None:
    file = folder / "page.pdf"
    chromium(folder, f"--print-to-pdf={file}", "--no-pdf-header-footer", f"file://{folder / 'page.html'}")
    content = file.read_bytes()
    assert content.startswith(b"%PDF") and 6 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 20
    if tool := shutil.which("pdftotext"):
        said = subprocess.run([tool, "-layout", str(file), "-"], capture_output=True, text=True, check=True).stdout
        sheets = [s for s in said.split("\f") if s.strip()]
        assert "do not tape out" in sheets[0] or "GO" in sheets[0]
        assert all(len(s.split()) > 20 for s in sheets)  # no empty sheet
        for words in ("months from the start", "MACs a second", "share of the draws"):  # axes of stills are in print
            assert words in said
