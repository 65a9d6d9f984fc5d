"""`python -m saccade`, which launchers of several processes start: `accelerate launch -m saccade sft ...`."""

import sys

from saccade.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
