"""Every block of README and docs is run, or held against what it speaks of.

- python run: run, page by page, one block after the other
- text: what the block before it prints, to the letter; text about P, where noise is in it: but for
  numbers, which are off by P % of the largest on their line at most
- sh: run against a service by tests/e2e/test_readme.py; python client: by tests/client
- r: run against a service by tests/r
- bash: not run, since it installs, deploys or goes on for ever; its commands exist
- json NAME: a body that the schema of that name accepts
- nginx, text config: a proxy's; they agree with the service's own settings
- python, diff, markdown of guides that add something: what they build, in tests of their own
"""

import contextlib
import importlib.util
import io
import re
import subprocess
import tomllib

import pydantic
import pytest

from app.api import questions, schemas
from app.settings import Settings, variables_of
from tests.docs.pages import BLOCK, ROOT, all_pages, blocks_of

RUN_BY_E2E = {"README.md", "docs/guides/command_line.md", "docs/guides/budgets.md"}
BUILT = {
    page for page in all_pages() if page.startswith("docs/guides/add_a_")
}  # tests of their own
TRIES = 3
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
    assert not re.search(r"^ {4}[\"{]", BLOCK.sub("", text), re.M), "an indented block: fence it"
    for word, said, _ in blocks_of(page):
        held = (
            (word == "python" and (said == "run" or page in BUILT))
            or (word == "python" and said == "client" and page == "docs/guides/command_line.md")
            or (word == "text" and re.fullmatch(r"|about \d+|config", said))
            or (word == "sh" and page in RUN_BY_E2E and not said)
            or (word == "r" and not said and page == "docs/guides/from_r.md")
            or (word == "bash" and not said)
            or (word == "json" and said)
            or (word == "nginx" and page == "docs/guides/production.md")
            or (word in ("diff", "markdown") and page in BUILT)
            or (word == "layers" and page == "docs/architecture.md")
        )
        assert held, (word, said)


def alike(shown, said, percent):
    """Whether it is what is shown, but for noise in its numbers.

    Words are the same. A number is off by so many percent of the largest on its line, or by one of
    its last digit, at most.
    """
    if percent is None:
        return shown == said
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", said).split():
        return False
    lines = [NUMBER.findall(line) for line in shown.splitlines()]
    largest = [max(abs(value(word)) for word in line) for line in lines for _ in line]
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(said), largest, strict=True)
    return all(
        abs(value(one) - value(other)) <= max(most * percent / 100, 1.01 * last_digit(one))
        for one, other, most in pairs
    )


def value(word):
    """The number that is written."""
    return float(word.replace(",", ""))


def last_digit(word):
    """What one more of its last digit is worth."""
    digits, _, power = word.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        ("a 1.00 b", "a  1.05 b", True),
        ("a 1.00 b", "a 1.2 b", False),
        ("a 1.00 b", "c 1.00 b", False),
        ("-0.012", "-0.013", True),
        ("-0.012", "0.012", False),
        ("1.00 -0.012", "1.00 0.012", True),
        ("1.0e-04", "1.2e-04", False),
        ("3 %", "4 %", True),
        ("3 %", "5 %", False),
    ],
)
def test_outputs_are_compared_number_by_number(shown, said, same):
    assert alike(shown, said, 10) is same


def unlike(page):
    """What was printed where it is not what the page shows; None where all of it is."""
    names, said = {"__name__": "page"}, ""
    for word, how, text in blocks_of(page):
        if word == "text" and how != "config":
            percent = float(how.removeprefix("about")) if how else None
            if not alike(text.rstrip(), said.rstrip(), percent):
                return said
        if word == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(text, page, "exec"), names)
            said = printed.getvalue()
    return None


@pytest.mark.longer
@pytest.mark.parametrize("page", pages_with("python", "run"))
def test_the_blocks_of_a_page_run_and_print_what_it_shows(page, monkeypatch, tmp_path):
    """Noise is fresh, and of sound releases one in a hundred is called unreliable: three tries."""
    alone = page in ("README.md", "docs/tutorial.md")  # they need nothing of the repository
    monkeypatch.chdir(tmp_path if alone else ROOT)
    printed = [unlike(page)]
    while printed[-1] is not None and len(printed) < TRIES:
        printed.append(unlike(page))
    assert printed[-1] is None, printed


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
        named = {name.removesuffix("_FILE") for name in exported - variables}
        assert named <= variables, named - variables
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
