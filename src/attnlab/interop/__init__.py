"""Files of other projects, in and out: names, settings, weights, adapters, ONNX."""
