// Row maxima of the MXU: the largest of a row's first `cols` sums, joined with what PARAM holds, into PARAM.
// A tree of signed maxima, two levels between two registers; PARAM is read in the cycle before its root is known.
// One row a cycle; the same row may come back after three. Words end here, with or without maxima, and so in order.

module dpu_mxu_rowmax
  import dpu_mxu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned ParamWords = 1024,
  localparam int unsigned ParamAw = $clog2(ParamWords)
) (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  logic               valid_i,
  // Waiver: the ACC address is not needed here, nor more bits of an address than PARAM has.
  /* verilator lint_off UNUSEDSIGNAL */
  input  row_t               row_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic [Cols*32-1:0] sum_i,

  output logic               param_rd_valid_o,
  output logic [ParamAw-1:0] param_rd_addr_o,
  input  logic [31:0]        param_rd_data_i,
  output logic               param_wr_valid_o,
  output logic [ParamAw-1:0] param_wr_addr_o,
  output logic [31:0]        param_wr_data_o,

  output logic               last_o,  // the word's last row is through

  output logic               held_o
);

  localparam int unsigned Stages = tree_stages(Cols);

  typedef struct packed {
    logic [ParamAw-1:0] addr;
    logic               write;
    logic               replace;
    logic               last;
  } scalar_t;

  function automatic logic [31:0] max2(logic [31:0] a, logic [31:0] b);
    return $signed(a) > $signed(b) ? a : b;
  endfunction

  scalar_t                  scalar;
  logic                     valid;
  logic [Stages:0]          valid_q;
  scalar_t [Stages:0]       scalar_q;  // [s]: with the values that stage s has made
  logic [31:0]              best_q;

  assign valid  = valid_i && (scalar.write || scalar.last);
  assign held_o = valid_q != '0;
  assign scalar = '{
    addr: row_i.rowmax[ParamAw-1:0],
    write: row_i.cols != '0,
    replace: row_i.replace,
    last: row_i.last
  };

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[Stages-1:0], valid};
  end

  // Values of tree stage s: Cols >> 2s of them, at least one.
  for (genvar s = 0; s < Stages; s++) begin : gen_stage
    localparam int unsigned In = Cols >> (2 * s);
    localparam int unsigned Out = In > 4 ? In / 4 : 1;
    logic [In-1:0][31:0]  value;
    logic [Out-1:0][31:0] max_q;
    logic                 go;

    if (s == 0) begin : gen_first
      always_comb begin
        for (int unsigned c = 0; c < In; c++) begin
          value[c] = 8'(c) < row_i.cols ? sum_i[c*32+:32] : 32'h8000_0000;
        end
      end
      assign go = valid;
    end else begin : gen_next
      assign value = gen_stage[s-1].max_q;
      assign go = valid_q[s-1];
    end

    always_ff @(posedge clk_i) begin
      if (go) begin
        for (int unsigned i = 0; i < Out; i++) begin
          if (In >= 4) begin
            max_q[i] <= max2(max2(value[4*i], value[4*i+1]), max2(value[4*i+2], value[4*i+3]));
          end else begin
            max_q[i] <= max2(value[0], value[In-1]);
          end
        end
        scalar_q[s] <= s == 0 ? scalar : scalar_q[s > 0 ? s - 1 : 0];
      end
    end
  end

  // PARAM is addressed beside the last stage of the tree, compared behind it.

  logic    rd_valid;
  // Waiver: `last` is not asked for here.
  /* verilator lint_off UNUSEDSIGNAL */
  scalar_t rd;
  /* verilator lint_on UNUSEDSIGNAL */

  if (Stages == 1) begin : gen_read_first
    assign rd_valid = valid;
    assign rd       = scalar;
  end else begin : gen_read
    assign rd_valid = valid_q[Stages-2];
    assign rd       = scalar_q[Stages-2];
  end

  assign param_rd_valid_o = rd_valid && rd.write && !rd.replace;
  assign param_rd_addr_o  = rd.addr;

  always_ff @(posedge clk_i) begin
    if (valid_q[Stages-1]) begin
      scalar_q[Stages] <= scalar_q[Stages-1];
      best_q <= scalar_q[Stages-1].replace ? gen_stage[Stages-1].max_q[0] :
                max2(gen_stage[Stages-1].max_q[0], param_rd_data_i);
    end
  end

  assign param_wr_valid_o = valid_q[Stages] && scalar_q[Stages].write;
  assign param_wr_addr_o  = scalar_q[Stages].addr;
  assign param_wr_data_o  = best_q;
  assign last_o           = valid_q[Stages] && scalar_q[Stages].last;

`ifndef SYNTHESIS
  // Waiver: the assertion samples the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  MaximumIsWritten: assert property (@(posedge clk_i) disable iff (!rst_ni)
    param_rd_valid_o |->
      !(valid_q[Stages-1] && scalar_q[Stages-1].write && scalar_q[Stages-1].addr == rd.addr) &&
      !(param_wr_valid_o && param_wr_addr_o == rd.addr));
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
