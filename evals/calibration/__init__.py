"""How far confidences can be trusted after recalibration, kind by kind, on labels that the map has not seen."""
