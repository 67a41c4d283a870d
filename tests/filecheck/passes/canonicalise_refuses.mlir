// RUN: not dpuc opt --passes canonicalise %s 2>&1 | filecheck %s

// CHECK:      error[E203]: m.onnx: node '/mid/Softmax': operation 'dpu.t.softmax' on (2, 8, 4, 4) has no canonical form
// CHECK-NEXT: why: the recognising passes left it over
// CHECK-NEXT: try: export with diffusers' default attention processors
func.func @lonely_softmax(%x: tensor<2x8x4x4xf32>) -> tensor<2x8x4x4xf32> {
  %y = dpu.t.softmax %x axis 1 : tensor<2x8x4x4xf32> -> tensor<2x8x4x4xf32> loc("/mid/Softmax"("m.onnx":0:0))
  func.return %y : tensor<2x8x4x4xf32>
}
