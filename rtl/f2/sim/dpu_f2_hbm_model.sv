// One AXI3 port of the HBM in simulation: bytes, latency, pauses and rules are hbm.cpp's, called once a cycle.
// What the port drives is registered: in a cycle `dpu_f2_hbm_port` sees the channels of the cycle that ends and sets those
// of the next.

module dpu_f2_hbm_model #(
  parameter int unsigned Port = 0
) (
  input  logic               clk_i,
  input  logic               rst_ni,
  output logic               ready_o,

  input  logic               ar_valid_i,
  output logic               ar_ready_o,
  input  dpu_f2_pkg::hbm_a_t ar_i,
  output logic               r_valid_o,
  input  logic               r_ready_i,
  output dpu_f2_pkg::hbm_r_t r_o,
  input  logic               aw_valid_i,
  output logic               aw_ready_o,
  input  dpu_f2_pkg::hbm_a_t aw_i,
  input  logic               w_valid_i,
  output logic               w_ready_o,
  input  dpu_f2_pkg::hbm_w_t w_i,
  output logic               b_valid_o,
  input  logic               b_ready_i,
  output logic [1:0]         b_o
);

  // `flags`: valid of AR, AW, W, ready of R, B, WLAST, bit 0 first. `state`: ready of AR, AW, W, valid of R, B, RLAST, two
  // bits each of the responses of R and B, started up, idle.
  import "DPI-C" function void dpu_f2_hbm_port(
    input int port, input int flags, input longint ar_addr, input int ar_len, input longint aw_addr, input int aw_len,
    input bit [255:0] w_data, input int w_strb, output int state, output bit [255:0] r_data
  );
  import "DPI-C" function void dpu_f2_hbm_reset(input int port);

  logic [31:0]  state_q;
  logic [3:0]   count_q;  // a port with nothing to do is called now and then: HBM may have started up
  logic         call;

  assign call = ar_valid_i | aw_valid_i | w_valid_i | ~state_q[11] | (count_q == '0);
  bit   [255:0] data_q;

  assign ar_ready_o = state_q[0];
  assign aw_ready_o = state_q[1];
  assign w_ready_o  = state_q[2];
  assign r_valid_o  = state_q[3];
  assign b_valid_o  = state_q[4];
  assign r_o        = '{data: data_q, resp: state_q[7:6], last: state_q[5]};
  assign b_o        = state_q[9:8];
  assign ready_o    = state_q[10];

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      dpu_f2_hbm_reset(int'(Port));
      state_q <= '0;
      count_q <= '0;
    end else begin
      count_q <= count_q + 4'd1;
      if (call) begin
        int           state;
        bit   [255:0] data;
        dpu_f2_hbm_port(
          int'(Port), int'({w_i.last, b_ready_i, r_ready_i, w_valid_i, aw_valid_i, ar_valid_i}),
          longint'(ar_i.addr), int'(ar_i.len), longint'(aw_i.addr), int'(aw_i.len), w_i.data, int'(w_i.strb), state, data
        );
        state_q <= 32'(unsigned'(state));
        data_q  <= data;
      end
    end
  end

  logic unused;
  assign unused = ^state_q[31:12];

endmodule
