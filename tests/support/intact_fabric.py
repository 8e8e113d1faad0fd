"""A fabric without faults."""

import numpy as np

from wse_mappings.mesh.faults import FabricFaults


def intact_fabric(rows: int, cols: int) -> FabricFaults:
    """Return a fabric without dead PEs and links."""
    none = np.zeros((rows, cols), bool)
    return FabricFaults(dead=none, east=none, south=none)
