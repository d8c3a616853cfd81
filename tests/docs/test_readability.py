"""Sentences that people are told are no harder to read than school grade 9.

Those of pages, scripts, errors, verdicts, mails, settings and the R package.

The measure is Flesch and Kincaid's (1975), of each sentence by itself. A word that the glossary or
WORDS explains counts as one syllable: it is known, however long.
"""

import ast
import re
from html.parser import HTMLParser

from tests.docs.pages import ROOT

GRADE = 9.0
FEWEST_WORDS = 6  # of a label of a few words the measure says nothing
WORDS = {"idempotency-key"}  # names of the API
# markup, commands, SQL, paths of Python, patterns and styles
NO_SENTENCE = re.compile(r"[<>{}$]| -F |CREATE |^[\w.:]+$|\)\?\||padding:")
BLOCKS = re.compile(
    "article|aside|button|caption|d[dlt]|details|div|fieldset|figcaption|footer|form|h[1-6]|header"
    "|label|legend|li|main|nav|ol|option|p|section|select|summary|table|tbody|t[dhr]|thead|title|ul"
)
SAID = ("title", "placeholder", "aria-label", "data-confirm")
SOURCES = ("app/**/*.py", "worker/**/*.py", "dpmcmc/**/*.py")
APART = ROOT / "dpmcmc/privacy/sites.py"  # a table of the sources, for auditors
QUOTED = ("app/web/static/*.js", "clients/r/R/*.R")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')


class Page(HTMLParser):
    """What a page says, block by block."""

    def __init__(self, template):
        super().__init__()
        self.blocks, self._hidden = [""], 0
        text = re.sub(r"\{#.*?#\}", "", template, flags=re.S)
        self.feed(
            re.sub(r"\{\{.*?\}\}", "5", re.sub(r"\{%.*?%\}", "", text, flags=re.S), flags=re.S)
        )

    def handle_starttag(self, tag, attrs):
        self._hidden += tag in ("script", "style", "pre")
        self.blocks += [""] if BLOCKS.fullmatch(tag) else []
        self.blocks[:0] = [value for name, value in attrs if name in SAID and value]

    def handle_endtag(self, tag):
        self._hidden -= tag in ("script", "style", "pre")
        self.blocks += [""] if BLOCKS.fullmatch(tag) else []

    def handle_data(self, data):
        self.blocks[-1] += "" if self._hidden else data


def of_module(text):
    """Strings of a module that are no docstrings, 5 in place of what is put into them."""
    tree = ast.parse(text)
    parts, found = set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            constants = [value for value in node.values if isinstance(value, ast.Constant)]
            parts.update(constants)
            found.append("".join(v.value if v in constants else "5" for v in node.values))
    found += [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts
    ]
    return found


def sentences():
    """Every sentence with its file."""
    for path in sorted((ROOT / "app/web/templates").glob("*.html")):
        for block in Page(path.read_text()).blocks:
            yield from ((path.name, sentence) for sentence in split(block))
    for pattern in SOURCES:
        for path in sorted(set(ROOT.glob(pattern)) - {APART}):
            for text in of_module(path.read_text()):
                yield from ((path.name, sentence) for sentence in split(text))
    for pattern in QUOTED:
        for path in sorted(ROOT.glob(pattern)):
            for quoted in LITERAL.findall(path.read_text()):
                text = re.sub(r"\$?\{.*?\}", "5", "".join(quoted))
                yield from ((path.name, sentence) for sentence in split(text))


def split(text):
    """The sentences of a text."""
    if NO_SENTENCE.search(text):
        return []
    return re.split(r"(?<=[.!?;:])\s+", " ".join(text.split()))


def words_of(sentence):
    """Its words; a name of the API, such as `num_steps`, is one of one syllable."""
    return re.findall(r"[A-Za-z][A-Za-z'-]*", re.sub(r"\w+_\w+", "x", sentence))


def syllables(word):
    """Groups of vowels; a last e that is not spoken is none."""
    spoken = re.sub(r"(?<=[^aeiouyl])e$|(?<=[^aeiouytd])ed$|(?<=[^aeiouyscz])es$", "", word.lower())
    return max(1, len(re.findall(r"[aeiouy]+", spoken)))


def grade(words, known):
    """The school grade (US) of one sentence."""
    counts = [1 if singular(word) in known else syllables(word) for word in words]
    return 0.39 * len(words) + 11.8 * sum(counts) / len(words) - 15.59


def known_words():
    """Words of the glossary's terms."""
    rows = re.findall(r"^\| (.+?) \|", (ROOT / "docs/glossary.md").read_text(), re.M)
    return {singular(word) for term in rows for word in words_of(term)} | WORDS


def singular(word):
    """A word in small letters, without the ending of a plural."""
    return re.sub(r"ies$", "y", word.lower()).rstrip("s")


def test_sentences_that_people_are_told_are_plain():
    known, seen, hard = known_words(), 0, {}
    for file, sentence in sentences():
        words = words_of(sentence)
        if len(words) >= FEWEST_WORDS:
            seen += 1
            if (of := grade(words, known)) > GRADE:
                hard[f"{file}: {sentence}"] = round(of, 1)
    assert seen > 1500
    assert not hard, "\n".join(f"{of} {sentence}" for sentence, of in hard.items())


def test_the_measure_tells_plain_from_hard():
    plain = "The job waits until a worker takes it, and its cost is paid then."
    hard = "Notwithstanding computational complexities, calibration necessitates heterogeneity."
    assert grade(words_of(plain), set()) < 5.0
    assert grade(words_of(hard), set()) > 20.0
