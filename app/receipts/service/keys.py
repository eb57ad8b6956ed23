"""The words under which judging finds a receipt: made by the core, which finds them without a server too."""

from app.core.qualify.keys import LONGEST_TEXT as LONGEST_TEXT
from app.core.qualify.keys import LONGEST_VALUE as LONGEST_VALUE
from app.core.qualify.keys import config_id as config_id
from app.core.qualify.keys import index_text as index_text
from app.core.qualify.keys import known as known
from app.core.qualify.keys import manifests as manifests
from app.core.qualify.keys import origin_keys as origin_keys
from app.core.qualify.keys import receipt_keys as receipt_keys
from app.core.qualify.keys import word as word
