"""One target under atheris: `python -m tests.fuzz.one NAME [libFuzzer options] CORPUS`."""

import logging
import sys
import warnings

import atheris


def main() -> None:
    """Instrument the package, seed the corpus in memory, and run until libFuzzer ends the process."""
    warnings.simplefilter("ignore")
    logging.disable()
    name = sys.argv.pop(1)
    with atheris.instrument_imports(include=["v14"]):
        from tests.fuzz.targets import TARGETS, expected

    target = TARGETS[name]
    found, *_ = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    for number, seed in enumerate(target.seeds()):
        with open(f"{found}/seed{number}", "wb") as file:
            file.write(seed)

    def once(data: bytes) -> None:
        with expected(target):
            target.run(data)

    atheris.Setup(sys.argv, once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
