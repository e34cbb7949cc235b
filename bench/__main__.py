import sys

from bench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
