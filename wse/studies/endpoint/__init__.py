"""An HTTP endpoint that answers the OpenAI API at the speed of a predicted machine."""
