"""All properties by name."""

from __future__ import annotations

from typing import Final

from tests.security.fuzz.acls import ACLS
from tests.security.fuzz.jaas import JAAS
from tests.security.fuzz.sasl import SASL
from tests.security.fuzz.stores import STORES
from tests.security.fuzz.tokens import TOKENS

PROPERTIES: Final = {each.name: each for each in (JAAS, SASL, TOKENS, STORES, ACLS)}
