"""Who the clients of this command say they are (`rmq --credentials FILE`), and how their connections are kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rmqspark.client.cluster.access import CREDENTIALS_FILE, KEY_VARIABLES, TLS_VARIABLES, variables_of
from rmqspark.client.cluster.credentials_file import read_credentials
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from rmqspark.remoting.access import Tls


def use_credentials(path: str) -> None:
    """From here on this process, and what it starts, go by the file, whatever its environment says. The environment is
    where all clients look; the keys themselves stay in the file. InvalidArgument for a file that is none."""
    if not path.strip():
        raise InvalidArgument("--credentials is empty.", hint="Leave it out for those of the environment.")
    read_credentials(path, "--credentials")
    for name in KEY_VARIABLES:
        os.environ.pop(name, None)
    os.environ[CREDENTIALS_FILE] = os.path.abspath(path)


def use_tls(tls: Tls | None) -> None:
    """From here on the clients of this process, and of what it starts, encrypt so, whatever its environment says."""
    for name in TLS_VARIABLES:
        os.environ.pop(name, None)
    os.environ.update(variables_of(tls))
