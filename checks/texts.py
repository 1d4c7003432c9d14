"""This module finds fields of the contracts with text that do not state what it holds.

What stays of a stored text where questions and answers are not stored follows from that statement: see
`proto/metacog/common/v1/text.proto`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

OPTION = "(metacog.common.v1.holds)"
_MESSAGE = re.compile(r"\s*message (\w+) \{")
_FIELD = re.compile(r"\s*(?:optional |repeated )?(?P<type>map<\w+, [\w.]+>|[\w.]+) (?P<name>\w+) = \d+\s*(?:\[|;)")
# What has texts: scalars, every map (its keys are texts), and the messages of Google that hold any of them.
_TEXTS = re.compile(r"string|bytes|map<.*>|google\.protobuf\.(?:Struct|Value|ListValue|Any|StringValue|BytesValue)")


def unstated(root: Path) -> Mapping[str, Sequence[str]]:
    """Return what is wrong, by file: one line for each field with text that does not state what it holds.

    Args:
        root: Folder of the repository.
    """
    found = {str(file.relative_to(root)): _unstated(file.read_text()) for file in sorted(root.glob("proto/**/*.proto"))}
    return {file: lines for file, lines in found.items() if lines}


def _unstated(source: str) -> Sequence[str]:
    lines, message = [], ""
    for line in _statements(source):
        opened, field = _MESSAGE.match(line), _FIELD.match(line)
        message = opened.group(1) if opened else message
        if field and _TEXTS.fullmatch(field.group("type")) and OPTION not in line:
            lines.append(
                f"{message}.{field.group('name')} has text: state what it holds, e.g. [{OPTION} = TEXT_CONTENTS]"
            )
    return lines


def _statements(source: str) -> Sequence[str]:
    """Return the statements of a contract, each in one line, without comments."""
    bare = re.sub(r"//.*", "", source)
    return [" ".join(part.split()) + part[-1:] for part in re.findall(r"[^;{}]*[;{}]", bare)]
