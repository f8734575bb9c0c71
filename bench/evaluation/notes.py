"""The words of the report: Markdown owned by a person, with figures filled in and paragraphs left out by conditions.

A section begins with "## NAME"; what stands before the first one is for its writers. {NAME} or {NAME:FORMAT} with a dot
in the name is a figure. A paragraph may begin with a line "[if NAME < 1 and NAME >= 2]". It is left out where that does
not hold, and where a figure that it names was not measured: words never stand without what they rest on."""

import operator
import re
from dataclasses import dataclass
from pathlib import Path

from evaluation.figures import ADVERSARIAL, is_figure_name
from evaluation.results_file import FileError

SECTIONS = ("introduction", "planning", "run times", "cost model", "memory", "adversarial") + tuple(
    f"reason {id}" for id in ADVERSARIAL
)
FIGURE = re.compile(r"\{([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)(?::([^{}]*))?\}")
TERM = re.compile(r"([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+) *(<=|>=|<|>) *(-?[0-9]+(?:\.[0-9]+)?)")
OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True)
class Paragraph:
    place: str
    condition: list  # of (figure, operator, number)
    text: str

    def names(self):
        return [name for name, _, _ in self.condition] + [match[1] for match in FIGURE.finditer(self.text)]

    def render(self, figures):
        """Nothing where the paragraph has nothing to say."""
        if any(name not in figures for name in self.names()):
            return None
        if not all(OPERATORS[sign](figures[name], number) for name, sign, number in self.condition):
            return None
        return FIGURE.sub(lambda match: self._fill(figures[match[1]], match[2]), self.text)

    def _fill(self, value, layout):
        try:
            return format(value, layout or (".3g" if isinstance(value, float) else ""))
        except ValueError as error:
            raise FileError(f"{self.place}: {layout!r} is no format for {value}: {error}") from error


def _parse_condition(place, line):
    terms = []
    for text in line.removeprefix("[if ").removesuffix("]").split(" and "):
        match = TERM.fullmatch(text.strip())
        if not match:
            raise FileError(f"{place}: expected a condition such as [if xla.paper.mean > 1], found {line}")
        terms.append((match[1], match[2], float(match[3])))
    return terms


def _parse_paragraph(place, lines):
    condition = []
    if lines[0].startswith("[if "):
        condition = _parse_condition(place, lines[0])
        lines = lines[1:]
    if not lines:
        raise FileError(f"{place}: a condition without a paragraph")
    return Paragraph(place, condition, "\n".join(lines))


class Notes:
    def __init__(self, path):
        self.path = path
        self.sections = {}
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"{path}: {error}") from error
        section = None
        lines = []
        for number, line in enumerate([*text.splitlines(), ""], 1):
            is_heading = line.startswith("## ")
            if line.strip() and not is_heading:
                lines.append(line)
                continue
            if lines and section is not None:
                section.append(_parse_paragraph(f"{path}:{number - len(lines)}", lines))
            lines = []
            if is_heading:
                section = self._begin_section(f"{path}:{number}", line.removeprefix("## ").strip())

    def _begin_section(self, place, name):
        if name not in SECTIONS:
            raise FileError(f"{place}: no section is called {name!r}; there are {', '.join(SECTIONS)}")
        if name in self.sections:
            raise FileError(f"{place}: a second section {name!r}")
        return self.sections.setdefault(name, [])

    def check(self, contenders):
        """Raises FileError for a figure that no results file could give."""
        for paragraph in (p for section in self.sections.values() for p in section):
            for name in paragraph.names():
                if not is_figure_name(name, contenders):
                    raise FileError(f"{paragraph.place}: no figure is called {name}")

    def paragraphs(self, section, figures):
        rendered = [paragraph.render(figures) for paragraph in self.sections.get(section, [])]
        return [text for text in rendered if text is not None]
