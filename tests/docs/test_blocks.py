"""Every block of README and docs is run, or held against what it speaks of.

python run              run, page by page, one block after the other
text [about P]          what the block before it prints: to the letter, or each number within P %
sh                      run against a service by tests/e2e/test_readme.py
bash                    not run, since it installs, deploys or goes on for ever: its commands exist
json NAME               a body: accepted by the schema of that name
nginx, text config      a proxy's: they agree with the service's own settings
python, diff, markdown  what the guides build, in tests/docs and tests/test_architecture.py
"""

import contextlib
import importlib.util
import io
import json
import math
import re
import subprocess
import tomllib
import warnings

import pydantic
import pytest

from dpmcmc_service.api import questions, schemas
from dpmcmc_service.settings import Settings, variables_of
from tests.docs.pages import ROOT, all_pages, blocks_of

RUN_BY_E2E = {"README.md", "docs/guides/command_line.md", "docs/guides/budgets.md"}
BUILT = {
    page for page in all_pages() if page.startswith("docs/guides/add_a_")
}  # tests of their own
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


def pages_with(language, how=""):
    """Pages that show a block of this language."""
    return [
        page
        for page in all_pages()
        if any(word == language and said.startswith(how) for word, said, _ in blocks_of(page))
        and page not in BUILT
    ]


@pytest.mark.parametrize("page", all_pages())
def test_every_block_is_of_a_kind_that_something_holds(page):
    text = (ROOT / page).read_text()
    fences = re.findall(r"^ *```", text, re.M)
    assert len(fences) == 2 * len(blocks_of(page)), "a block without a language, or indented"
    assert not re.search(r"^ {4}[\"{]", text, re.M), "an indented block: fence it"
    for word, said, _ in blocks_of(page):
        held = (
            (word == "python" and (said == "run" or page in BUILT))
            or (word == "text" and re.fullmatch(r"|about \d+|config", said))
            or (word == "sh" and page in RUN_BY_E2E and not said)
            or (word == "bash" and not said)
            or (word == "json" and said)
            or (word == "nginx" and page == "docs/guides/production.md")
            or (word in ("diff", "markdown") and page in BUILT)
            or (word == "layers" and page == "docs/architecture.md")
        )
        assert held, (word, said)


def alike(shown, said, percent):
    """Whether it is what is shown: words to the letter, numbers within so many percent.

    Or within one of the last digit that is shown.
    """
    if percent is None:
        return shown == said
    words, other = NUMBER.sub("#", shown).split(), NUMBER.sub("#", said).split()
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(said), strict=words == other)
    return words == other and all(near(*pair, percent / 100) for pair in pairs)


def near(shown, said, share):
    """Whether two numbers, as they are written, are about the same."""
    decimals = len(re.match(r"[-+\d,]*\.?(\d*)", shown).group(1))
    _, _, power = shown.partition("e")
    unit = 10.0 ** (int(power or 0) - decimals)
    one, other = (float(word.replace(",", "")) for word in (shown, said))
    return math.isclose(one, other, rel_tol=share, abs_tol=1.01 * unit)


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("a 1.00 b", "a  1.05 b", True),
        ("a 1.00 b", "a 1.2 b", False),
        ("a 1.00 b", "c 1.00 b", False),
        ("-0.012", "-0.013", True),
        ("-0.012", "0.012", False),
        ("1.0e-04", "1.2e-04", False),
        ("3 %", "4 %", True),
        ("3 %", "5 %", False),
    ],
)
def test_outputs_are_compared_number_by_number(shown, said, same):
    assert alike(shown, said, 10) is same


@pytest.mark.parametrize("page", pages_with("python", "run"))
def test_the_blocks_of_a_page_run_and_print_what_it_shows(page, monkeypatch, tmp_path):
    """In CI noise is the same in each run; elsewhere one release in a hundred is unreliable."""
    if page == "README.md" or page == "docs/tutorial.md":
        monkeypatch.chdir(tmp_path)  # they need nothing of the repository
    else:
        monkeypatch.chdir(ROOT)
    names, said = {"__name__": "page"}, io.StringIO()
    for word, how, text in blocks_of(page):
        if word == "text" and how != "config":
            percent = float(how.removeprefix("about")) if how else None
            assert alike(text.rstrip(), said.getvalue().rstrip(), percent), said.getvalue()
        said = io.StringIO()
        if word == "python":
            with contextlib.redirect_stdout(said), warnings.catch_warnings():
                exec(compile(text, page, "exec"), names)


@pytest.mark.parametrize("page", pages_with("json"))
def test_bodies_are_what_the_service_takes(page):
    for word, name, text in blocks_of(page):
        if word == "json":
            model = getattr(schemas, name, None) or getattr(questions, name)
            pydantic.TypeAdapter(model).validate_json(text)


@pytest.mark.parametrize("page", pages_with("bash"))
def test_commands_that_are_not_run_exist(page):
    known = set(re.findall(r"^\./dev ([\w-]+)", (ROOT / "dev").read_text(), re.M))
    variables = {v for n, field in Settings.model_fields.items() for v in variables_of(n, field)}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for word, _, text in blocks_of(page):
        if word != "bash":
            continue
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        assert set(re.findall(r"\./dev ([\w-]+)", text)) <= known
        for module in re.findall(r"python3? -m ([\w.]+)", text):
            assert importlib.util.find_spec(module), module
        assert set(re.findall(r"^pip install '\.\[(\w+)\]'", text, re.M)) <= set(extras)
        exported = set(re.findall(r"\b([A-Z_]+)=", text)) - {"DPMCMC_KEY", "DPMCMC_URL"}
        assert exported <= variables, exported
        for path in re.findall(r"(?:-k|-f) (\S+)", text):
            assert (ROOT / path).exists(), path


def test_proxies_agree_with_the_settings():
    (nginx,) = (t for w, _, t in blocks_of("docs/guides/production.md") if w == "nginx")
    (caddy,) = (t for w, s, t in blocks_of("docs/guides/production.md") if s == "config")
    assert "proxy_pass http://127.0.0.1:8000;" in nginx
    assert "reverse_proxy 127.0.0.1:8000 {" in caddy
    most = Settings.model_fields["max_upload_bytes"].default
    (megabytes,) = re.findall(r"client_max_body_size (\d+)m;", nginx)
    assert most < int(megabytes) * 2**20 < 2 * most
    for text in (nginx, caddy):
        assert text.count("{") == text.count("}")
