"""Adapters in the files of peft, in and out: `adapter_config.json` and `adapter_model.safetensors`."""
