"""``wse serve``: serves the OpenAI API over HTTP at the speed of a predicted machine."""

from __future__ import annotations

import sys

from wse.studies.endpoint.request import EndpointRequest


def serve(request: EndpointRequest) -> None:
    """Serve the OpenAI API over HTTP, at the predicted speed.

    Clients such as chat programs, agents and load generators connect to the endpoint, and get each
    token when the predicted machine would send it. The model is not executed. To simulate many
    requests at once, without clients and without waiting, use wse serve-sim.

    Examples:

    \b
      wse serve llama-3-8b
      wse serve llama-3.1-70b --context 8192 --port 8001
      wse serve llama-3.1-70b --gpu h100 --gpus 8 --speed 0.5 --text story.txt
    """
    from wse.reports.terminal import printable
    from wse.studies.endpoint.server import Endpoint

    with Endpoint(request) as endpoint:
        sys.stdout.write(
            f"{printable(endpoint.model)} on {endpoint.systems}, requests of up to {endpoint.context:,} tokens: "
            f"{endpoint.address}\n"
        )
        sys.stdout.flush()
        endpoint.run()
