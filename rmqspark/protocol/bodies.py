"""All JSON bodies, a file per family; import them from here.

What Spark's processes import names the family: every query starts new ones, and each of them begins with nothing.
"""

from rmqspark.protocol.bodies_admin import *  # noqa: F403 - this module is the families' one door
from rmqspark.protocol.bodies_base import *  # noqa: F403
from rmqspark.protocol.bodies_bulk import *  # noqa: F403
from rmqspark.protocol.bodies_client import *  # noqa: F403
from rmqspark.protocol.bodies_queries import *  # noqa: F403
from rmqspark.protocol.bodies_route import *  # noqa: F403
from rmqspark.protocol.bodies_txn import *  # noqa: F403
