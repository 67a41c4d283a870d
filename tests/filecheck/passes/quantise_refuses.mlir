// RUN: not dpuc opt --passes quantise %s 2>&1 | filecheck %s

// CHECK:      error[E220]: m.onnx: node '/mid/Upsample': 'dpu.upsample' of 1x16x8
// CHECK-NEXT: why: it has no quantised form on the DPU
// CHECK-NEXT: try: run the graph passes first
func.func @lonely_upsample(%x: tensor<1x16x8xf16>) -> tensor<1x64x8xf16> {
  %y = dpu.upsample %x size 4 x 4 : i64 : tensor<1x16x8xf16> -> tensor<1x64x8xf16> loc("/mid/Upsample"("m.onnx":0:0))
  func.return %y : tensor<1x64x8xf16>
}
