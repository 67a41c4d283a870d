// RUN: dpuc opt --passes recognise-activation %s | filecheck %s

// CHECK-LABEL: func.func @silu
// CHECK-NEXT:  dpu.t.silu %x : tensor<2x8xf16> -> tensor<2x8xf16>
// CHECK-NEXT:  func.return
func.func @silu(%x: tensor<2x8xf16>) -> tensor<2x8xf16> {
  %s = dpu.t.sigmoid %x : tensor<2x8xf16> -> tensor<2x8xf16>
  %y = dpu.t.mul %x, %s : tensor<2x8xf16>, tensor<2x8xf16> -> tensor<2x8xf16>
  func.return %y : tensor<2x8xf16>
}

// CHECK-LABEL: func.func @quick_gelu
// CHECK:       dpu.t.quick_gelu %x
// CHECK-NOT:   dpu.t.sigmoid
func.func @quick_gelu(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %c = dpu.t.constant dense<1.702> : tensor<f32>
  %a = dpu.t.mul %x, %c : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %s = dpu.t.sigmoid %a : tensor<2x8xf32> -> tensor<2x8xf32>
  %y = dpu.t.mul %x, %s : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// The form of opset 19 and before: x * (1 + erf(x / sqrt 2)) * 0.5.
// CHECK-LABEL: func.func @erf_gelu
// CHECK:       dpu.t.gelu %x
// CHECK-NOT:   dpu.t.erf
func.func @erf_gelu(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %root = dpu.t.constant dense<1.41421354> : tensor<f32>
  %one = dpu.t.constant dense<1.0> : tensor<f32>
  %half = dpu.t.constant dense<0.5> : tensor<f32>
  %a = dpu.t.div %x, %root : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %e = dpu.t.erf %a : tensor<2x8xf32> -> tensor<2x8xf32>
  %p = dpu.t.add %e, %one : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %m = dpu.t.mul %x, %p : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %y = dpu.t.mul %m, %half : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// A gate on another value is no activation.
// CHECK-LABEL: func.func @gate
// CHECK:       dpu.t.sigmoid
// CHECK:       dpu.t.mul
func.func @gate(%x: tensor<2x8xf16>, %z: tensor<2x8xf16>) -> tensor<2x8xf16> {
  %s = dpu.t.sigmoid %z : tensor<2x8xf16> -> tensor<2x8xf16>
  %y = dpu.t.mul %x, %s : tensor<2x8xf16>, tensor<2x8xf16> -> tensor<2x8xf16>
  func.return %y : tensor<2x8xf16>
}
