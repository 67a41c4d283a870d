// The soft reset of the DPU and the copy engine, which leaves no open access behind: drain, reset, go on.
// While draining, the tiles' memory ports finish what is open and the copy engine stops; if memory hangs that does not end
// (`busy_o` stays), and only loading the image again helps.

module dpu_f2_reset #(
  parameter int unsigned Cycles = 16  // of the DPU's reset, and of quiet before it
) (
  input  logic clk_i,
  input  logic rst_ni,

  input  logic start_i,
  output logic busy_o,
  output logic drain_o,
  input  logic quiet_i,  // tiles' ports, copy engine and register bus
  output logic dpu_rst_no
);

  typedef enum logic [1:0] {
    Idle,
    Drain,
    Reset,
    Settle
  } state_e;

  localparam int unsigned CountW = $clog2(Cycles);

  state_e            state_q;
  logic [CountW-1:0] count_q;
  logic              rst_q, last;

  assign busy_o     = state_q != Idle;
  assign drain_o    = state_q != Idle;
  assign dpu_rst_no = rst_q;
  assign last       = count_q == CountW'(Cycles - 1);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      state_q <= Reset;
      count_q <= '0;
      rst_q   <= 1'b0;
    end else begin
      count_q <= count_q + CountW'(1);
      unique case (state_q)
        Idle: begin
          count_q <= '0;
          if (start_i) state_q <= Drain;
        end
        Drain: begin
          if (!quiet_i) count_q <= '0;
          if (quiet_i && last) begin
            state_q <= Reset;
            count_q <= '0;
            rst_q   <= 1'b0;
          end
        end
        Reset: begin
          if (last) begin
            state_q <= Settle;
            count_q <= '0;
            rst_q   <= 1'b1;
          end
        end
        Settle: if (last) state_q <= Idle;
        default: state_q <= Idle;
      endcase
    end
  end

endmodule
