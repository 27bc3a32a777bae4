"""The bit field by which several answers say what the asker may do (KIP-430).

Bit n stands for the ACL operation of code n. Brokers fill it in only if the request asks.
"""

from typing import Final

OPERATIONS_NOT_ASKED_FOR: Final = -(2**31)
"""No bit of an operation, but the sign bit: the answer does not say."""
