"""An HTTP endpoint that serves the OpenAI API at the speed of a predicted machine."""
