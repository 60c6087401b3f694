"""``python -m fastdata_cli``."""

from fastdata_cli.cli.main import main

main()
