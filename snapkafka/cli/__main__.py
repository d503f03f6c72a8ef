"""`python -m snapkafka.cli`: the command, for environments without its script on the path."""

from snapkafka.cli import main

if __name__ == "__main__":
    main()
