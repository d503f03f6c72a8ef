"""The service: REST, live progress and the page, for people and programs that do not run the command.

It is stateless: it folds the ledger (`ledger_follower`) and reads storage, so any number of instances give the same
answers, and an instance that is killed loses nothing except the assembly that it was running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .access import Tokens
    from .app import make_app
    from .ledger_follower import LedgerFollower
    from .routes import ROUTES, document
    from .server import serve
    from .settings import Settings
else:
    __getattr__ = lazily(__name__)
