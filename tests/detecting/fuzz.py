"""Coverage-guided fuzzing of the detector's parser and rules: ``python -m tests.detecting.fuzz -runs=1000000``.

Arguments are libFuzzer's. It ends with a traceback and the input when anything raises; ``-timeout`` names inputs that
take long.
"""

import sys

import atheris

with atheris.instrument_imports(include=["detector"]):
    from detector import findings, kmsg, lines, rules  # noqa: F401 - what is to be instrumented
    from tests.detecting.hostile import Judge, known_lines

_judge = Judge()


def one(data: bytes) -> None:
    """One record as it is, and its text as that of a sound record."""
    kmsg.parse(data)
    _judge.judge([data, b"3,1,1,-;" + data.replace(b"\n", b"\n "), b"3,2,2,c;" + data[:64], b"3,3,3,-;" + data[64:]])


def main() -> None:
    """Fuzz, beginning with the lines that the rules know."""
    atheris.Setup([*sys.argv, "-max_len=2048"], one)
    for line in known_lines():
        one(line)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
