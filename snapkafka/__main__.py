"""`python -m snapkafka`: the command, where its script is not on the path."""

from snapkafka.cli import main

if __name__ == "__main__":
    main()
