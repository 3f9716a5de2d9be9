"""``python -m service.cli`` is the ``gradmill`` command."""

from service.cli.app import main

main()
