"""From a person's text to batches on the device: corpora → tokenizers → encode → batching → loader."""
