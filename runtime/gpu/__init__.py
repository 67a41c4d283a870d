"""The GPU path: ONNX Runtime CUDA and torch.compile, the opponent that the DPU is measured against."""
