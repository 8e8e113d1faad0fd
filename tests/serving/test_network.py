"""What lies between a user and a machine: bundled numbers, a user's in their place, and the first token."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hardware.helpers import check_bundled, write_toml
from wse.hardware.number import numeric_fields
from wse.serving.network import Network, load_network
from wse.studies.estimate.timing.user_latency import user_latency_result


def test_every_bundled_number_has_unit_grade_source_and_range() -> None:
    network = load_network()
    assert network.sources.keys() == numeric_fields(Network).keys()
    check_bundled(network.sources)
    assert all(number.range is not None for number in network.sources.values())
    assert all(number.low <= number.value <= number.high for number in network.sources.values())


def test_first_token_of_a_user_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    numbers = (
        "network_round_trip_s = { value = 0.1, range = [0.05, 0.2] }\nconnection_round_trips = 2\nservice_s = 0.01"
    )
    network = load_network(write_toml(tmp_path, numbers))
    user = user_latency_result(network, ttft_s=0.5, request_s=2.0)
    by = user.ttft_by
    assert by.connection_s == pytest.approx(0.2)
    assert user.ttft_s == pytest.approx(0.2 + 0.1 + 0.01 + 0.5)
    assert user.ttft_s == pytest.approx(by.connection_s + by.network_s + by.service_s + by.machine_s)
    assert user.ttft_open_s == pytest.approx(0.61)
    assert user.ttft_range_s == (pytest.approx(3 * 0.05 + 0.01 + 0.5), pytest.approx(3 * 0.2 + 0.01 + 0.5))
    assert user.request_s == pytest.approx(2.31)
    assert user.outside_share == pytest.approx(0.31 / 2.31)
    assert user.grade == "U"
    assert network.weakest == ("U", "network_round_trip_s")
