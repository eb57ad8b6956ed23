"""Who someone is, and what they may do.

people      accounts, their scopes and passwords
presets     which preset an account holds, and what it lacks of it by now
keys        API keys
known       keys recognised a moment ago, and when each was last used
changes     forgets them when something changes
logins      dashboard sessions
"""

from app.accounts.service.keys import (
    KEY_LABEL,
    KEY_LIFE,
    KEY_PREFIX,
    LONGEST_KEY_LIFE,
    KeyOrder,
    KeyState,
    NewKey,
    authenticate_key,
    create_key,
    get_key,
    list_keys,
    make_key,
    make_key_for,
    revoke_key,
    revoke_key_for,
    revoke_keys,
    state_of,
)
from app.accounts.service.known import REMEMBERED_S, KnownKeys
from app.accounts.service.logins import Login, log_in, log_out, resume
from app.accounts.service.people import (
    ACCOUNT_NAME,
    BESIDE,
    LONGEST_PASSWORD,
    SHORTEST_PASSWORD,
    change_account,
    create_account,
    get_account,
    has_account,
    list_accounts,
    set_password,
)
from app.accounts.service.presets import PresetOf, preset_of

__all__ = [
    "ACCOUNT_NAME",
    "BESIDE",
    "KEY_LABEL",
    "KEY_LIFE",
    "KEY_PREFIX",
    "LONGEST_KEY_LIFE",
    "LONGEST_PASSWORD",
    "REMEMBERED_S",
    "SHORTEST_PASSWORD",
    "KeyOrder",
    "KeyState",
    "KnownKeys",
    "Login",
    "NewKey",
    "PresetOf",
    "authenticate_key",
    "change_account",
    "create_account",
    "create_key",
    "get_account",
    "get_key",
    "has_account",
    "list_accounts",
    "list_keys",
    "log_in",
    "log_out",
    "make_key",
    "make_key_for",
    "preset_of",
    "resume",
    "revoke_key",
    "revoke_key_for",
    "revoke_keys",
    "set_password",
    "state_of",
]
