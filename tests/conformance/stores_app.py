"""`confluent_app` whose consumer commits what it has stored: `python -m tests.conformance.stores_app ROLE`."""

import sys
from typing import cast

from tests.conformance.confluent_app import main
from tests.conformance.money import Role

if __name__ == "__main__":
    main(cast(Role, sys.argv[1]), stores=True)
