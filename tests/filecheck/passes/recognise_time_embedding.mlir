// RUN: dpuc opt --passes recognise-time-embedding %s | filecheck %s

// Frequencies exp(-ln(10000) i / 4); sine and cosine exchanged by slices, as diffusers does with flip_sin_to_cos.
// CHECK-LABEL: func.func @sinusoid
// CHECK:       dpu.t.sinusoid %t half 4 : tensor<2x1xf32> -> tensor<2x8xf32>
// CHECK-NOT:   dpu.t.sin
// CHECK:       func.return
func.func @sinusoid(%t: tensor<2x1xf32>) -> tensor<2x8xf32> {
  %f = dpu.t.constant dense<[[1.0, 0.1, 0.01, 0.001]]> : tensor<1x4xf32>
  %a = dpu.t.mul %t, %f : tensor<2x1xf32>, tensor<1x4xf32> -> tensor<2x4xf32>
  %s = dpu.t.sin %a : tensor<2x4xf32> -> tensor<2x4xf32>
  %c = dpu.t.cos %a : tensor<2x4xf32> -> tensor<2x4xf32>
  %sc = dpu.t.concat %s, %c axis 1 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x8xf32>
  %second = dpu.t.slice %sc axis 1 from 4 to 8 : tensor<2x8xf32> -> tensor<2x4xf32>
  %first = dpu.t.slice %sc axis 1 from 0 to 4 : tensor<2x8xf32> -> tensor<2x4xf32>
  %y = dpu.t.concat %second, %first axis 1 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// Other frequencies are another embedding.
// CHECK-LABEL: func.func @other_frequencies
// CHECK:       dpu.t.sin
func.func @other_frequencies(%t: tensor<2x1xf32>) -> tensor<2x8xf32> {
  %f = dpu.t.constant dense<[[1.0, 0.5, 0.25, 0.125]]> : tensor<1x4xf32>
  %a = dpu.t.mul %t, %f : tensor<2x1xf32>, tensor<1x4xf32> -> tensor<2x4xf32>
  %s = dpu.t.sin %a : tensor<2x4xf32> -> tensor<2x4xf32>
  %c = dpu.t.cos %a : tensor<2x4xf32> -> tensor<2x4xf32>
  %y = dpu.t.concat %c, %s axis 1 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}
