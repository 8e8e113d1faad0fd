"""A pool for studies that compute everything in the process of the test."""

from typing import Final

from wse.studies.workers.engine_pool import Pool
from wse.studies.workers.pool import outputs

ONE_PROCESS: Final = Pool(processes=1, outputs=outputs)
