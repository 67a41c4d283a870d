// RUN: dpuc opt --passes recognise-attention %s | filecheck %s

// The scale is split over both factors, and rounded: 0.3535 * 0.3535 is 1 / sqrt(64).
// CHECK-LABEL: func.func @scaled
// CHECK:       [[K:%.*]] = dpu.t.transpose %k {perm = array<i64: 0, 1, 3, 2>}
// CHECK:       dpu.t.attention %q, [[K]], %v scale 1.250000e-01 :
// CHECK-NOT:   dpu.t.softmax
func.func @scaled(%q: tensor<2x3x16x64xf32>, %k: tensor<2x3x64x77xf32>, %v: tensor<2x3x77x64xf32>) -> tensor<2x3x16x64xf32> {
  %s = dpu.t.constant dense<0.3535> : tensor<f32>
  %qs = dpu.t.mul %q, %s : tensor<2x3x16x64xf32>, tensor<f32> -> tensor<2x3x16x64xf32>
  %ks = dpu.t.mul %k, %s : tensor<2x3x64x77xf32>, tensor<f32> -> tensor<2x3x64x77xf32>
  %a = dpu.t.matmul %qs, %ks : tensor<2x3x16x64xf32>, tensor<2x3x64x77xf32> -> tensor<2x3x16x77xf32>
  %p = dpu.t.softmax %a axis 3 : tensor<2x3x16x77xf32> -> tensor<2x3x16x77xf32>
  %y = dpu.t.matmul %p, %v : tensor<2x3x16x77xf32>, tensor<2x3x77x64xf32> -> tensor<2x3x16x64xf32>
  func.return %y : tensor<2x3x16x64xf32>
}

// A causal mask and a guard against NaN, as in a text encoder. This scale is not 1 / sqrt(d): it stays what it is.
// CHECK-LABEL: func.func @causal
// CHECK:       dpu.t.attention %q, {{%.*}}, %v scale 2.500000e-01 causal :
// CHECK-NOT:   dpu.t.where
func.func @causal(%q: tensor<1x2x8x64xf32>, %k: tensor<1x2x64x8xf32>, %v: tensor<1x2x8x64xf32>) -> tensor<1x2x8x64xf32> {
  %s = dpu.t.constant dense<0.25> : tensor<f32>
  %zero = dpu.t.constant dense<0.0> : tensor<f32>
  %mask = dpu.t.causal_mask : tensor<1x1x8x8xf32>
  %a = dpu.t.matmul %q, %k : tensor<1x2x8x64xf32>, tensor<1x2x64x8xf32> -> tensor<1x2x8x8xf32>
  %as = dpu.t.mul %a, %s : tensor<1x2x8x8xf32>, tensor<f32> -> tensor<1x2x8x8xf32>
  %m = dpu.t.add %as, %mask : tensor<1x2x8x8xf32>, tensor<1x1x8x8xf32> -> tensor<1x2x8x8xf32>
  %p = dpu.t.softmax %m axis 3 : tensor<1x2x8x8xf32> -> tensor<1x2x8x8xf32>
  %n = dpu.t.is_nan %p : tensor<1x2x8x8xf32> -> tensor<1x2x8x8xi1>
  %g = dpu.t.where %n, %zero, %p : tensor<1x2x8x8xi1>, tensor<f32>, tensor<1x2x8x8xf32> -> tensor<1x2x8x8xf32>
  %y = dpu.t.matmul %g, %v : tensor<1x2x8x8xf32>, tensor<1x2x8x64xf32> -> tensor<1x2x8x64xf32>
  func.return %y : tensor<1x2x8x64xf32>
}

// Softmax over queries, and a mask of unknown content: neither is attention that the DPU runs.
// CHECK-LABEL: func.func @stays
// CHECK:       dpu.t.softmax {{%.*}} axis 2
// CHECK:       dpu.t.softmax {{%.*}} axis 3
func.func @stays(%q: tensor<1x2x8x64xf32>, %k: tensor<1x2x64x8xf32>, %v: tensor<1x2x8x64xf32>, %mask: tensor<1x1x8x8xf32>) -> (tensor<1x2x8x64xf32>, tensor<1x2x8x64xf32>) {
  %a = dpu.t.matmul %q, %k : tensor<1x2x8x64xf32>, tensor<1x2x64x8xf32> -> tensor<1x2x8x8xf32>
  %p = dpu.t.softmax %a axis 2 : tensor<1x2x8x8xf32> -> tensor<1x2x8x8xf32>
  %y = dpu.t.matmul %p, %v : tensor<1x2x8x8xf32>, tensor<1x2x8x64xf32> -> tensor<1x2x8x64xf32>
  %m = dpu.t.add %a, %mask : tensor<1x2x8x8xf32>, tensor<1x1x8x8xf32> -> tensor<1x2x8x8xf32>
  %p2 = dpu.t.softmax %m axis 3 : tensor<1x2x8x8xf32> -> tensor<1x2x8x8xf32>
  %y2 = dpu.t.matmul %p2, %v : tensor<1x2x8x8xf32>, tensor<1x2x8x64xf32> -> tensor<1x2x8x64xf32>
  func.return %y, %y2 : tensor<1x2x8x64xf32>, tensor<1x2x8x64xf32>
}
