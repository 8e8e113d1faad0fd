"""Fixtures for tests of comparisons: a request for a small model."""

import pytest

from tests.models.helpers import write_config, write_model
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.option import make_request


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> EstimateRequest:
    """Return a request for a model of four layers on small wafers, with schedule `baseline`."""
    folder = tmp_path_factory.mktemp("four")
    write_model(folder)
    write_config(folder, num_hidden_layers=4)
    model = str(folder / "config.json")
    return make_request(EstimateRequest, model=model, mesh="6x5", prompt_len=5, new_tokens=20, schedule="baseline")
