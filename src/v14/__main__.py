"""The command `v14`, also as `python -m v14`.

`v14 doctor` says what is wrong with an installation, so it must not need what may be missing there: it is answered
before anything outside the standard library is imported.
"""

import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["doctor"]:
        from v14.doctor import run

        sys.exit(run.main(sys.argv[2:]))
    from v14.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
