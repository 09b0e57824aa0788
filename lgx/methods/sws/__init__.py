"""SWS: stage-wise weight sharing."""
